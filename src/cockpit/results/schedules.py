"""The schedules that have a name, as factors on the base rate, and which of them a list of factors is."""

import math
from collections.abc import Callable, Sequence


def constant(epoch: int, epochs: int) -> float:
    """Always the base rate."""
    return 1.0


def cosine(epoch: int, epochs: int) -> float:
    """Half a cosine, from the base rate towards zero."""
    return 0.5 * (1 + math.cos(math.pi * epoch / epochs))


def cosine_wr(epoch: int, epochs: int) -> float:
    """Cosines with warm restarts, in cycles of 10, 20, 40, ... epochs whatever the length of the run."""
    start, length = 0, 10
    while epoch >= start + length:
        start, length = start + length, 2 * length
    return cosine(epoch - start, length)


def trapezoidal(epoch: int, epochs: int) -> float:
    """Rise over the first tenth, stay, fall over the last tenth; epoch 0 has the first step of the rise, not zero."""
    rise = epochs / 10
    if epoch > epochs - rise:
        return 1 - (epoch - (epochs - rise)) / (rise + 1)
    return min((epoch + 1) / rise, 1.0)


def ltr(epoch: int, epochs: int) -> float:
    """The trapezoid as it was published: one epoch at the full rate, then the rise, an epoch later."""
    return 1.0 if epoch == 0 else trapezoidal(epoch - (epoch <= epochs / 10), epochs)


def linear(epoch: int, epochs: int) -> float:
    """A straight line from the base rate towards zero."""
    return 1 - epoch / epochs


def wsd(epoch: int, epochs: int) -> float:
    """Warm-up, stable, decay: a rise over the first tenth, the base rate, a fall towards zero over the last fifth."""
    return min((epoch + 1) / (epochs / 10), 1.0, (epochs - epoch) / (epochs / 5))


def one_cycle(epoch: int, epochs: int) -> float:
    """One cycle (Smith and Topin 2018): from a 25th up to the base rate, then down to nearly nothing."""
    top, low, end = 0.3 * epochs - 1, 1 / 25, 1 / 250_000
    if epoch <= top:
        return low + (1 - low) * (1 - math.cos(math.pi * epoch / top)) / 2 if top > 0 else 1.0
    rest = (epoch - top) / (epochs - 1 - top) if epochs > 1 else 0.0
    return end + (1 - end) * (1 + math.cos(math.pi * rest)) / 2


_KNOWN: dict[str, Callable[[int, int], float]] = {rule.__name__: rule for rule in (cosine, cosine_wr, ltr)}


def named(begins: Sequence[int] | None, factors: Sequence[float] | None, epochs: int) -> str:
    """The name of the schedule with these factors of the base rate from these epochs on; epoch 0 has the base rate.

    One without a name is spelled out, each step by what it multiplies the rate with: ``"0.1@50,0.1@80"``.
    """
    steps = dict(zip(begins or (), factors or (), strict=True))
    steps = {int(epoch): float(factor) for epoch, factor in sorted(steps.items()) if 0 < epoch < epochs}
    used = [1.0]
    for epoch in range(1, epochs):
        used.append(steps.get(epoch, used[-1]))
    if all(factor == 1 for factor in used):
        return "constant"
    for name, rule in _KNOWN.items():
        if all(math.isclose(used[epoch], rule(epoch, epochs), abs_tol=1e-5) for epoch in range(1, epochs)):
            return name
    pairs = zip(range(1, epochs), used[:-1], used[1:], strict=True)
    return ",".join(f"{now / last if last else now:.6g}@{epoch}" for epoch, last, now in pairs if now != last)
