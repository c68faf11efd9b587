"""``pit.explain()``: what is covered, what is not, why, and what it costs."""

from typing import Any

from torch import nn

from cockpit.core.ledger import WHOLE, Ledger, ledger
from cockpit.core.meter import Meter
from cockpit.engine.needs import double_backward
from cockpit.tracking.tracker import Tracker


def explain(tracker: Tracker, model: nn.Module | None = None) -> str:
    """Return the state of a tracker in plain sentences."""
    lines = [*_what(tracker, model), *_coverage(tracker), *_undefined(tracker), *_cost(tracker)]
    return "\n".join(lines)


def _what(tracker: Tracker, model: nn.Module | None) -> list[str]:
    parameters = tracker._parameters()
    elements = sum(p.numel() for p in parameters.values())
    watched = f"{type(model).__name__}, " if model is not None else ""
    names = {quantity.name for quantity in tracker.quantities}
    steps = sorted({record.step for record in tracker.history if record.name in names})
    seen = f"steps {steps[0]} to {steps[-1]}, {len(steps)} of them tracked" if steps else "no step tracked yet"
    listed = ", ".join(quantity.name for quantity in tracker.quantities) or "none"
    return [f"Watching {watched}{len(parameters)} parameters, {elements} elements; {seen}.", f"Quantities: {listed}."]


def _coverage(tracker: Tracker) -> list[str]:
    seen, lines = tracker.coverage, []
    if seen.flaw:
        lines.append(f"The last tracked step has no individual gradients: {seen.flaw}.")
    elif seen.uncovered:
        lines.append(f"Individual gradients cover {seen.share:.1%} of all elements; left out of the sums:")
        lines += [f"  {name}: {why}" for name, why in sorted(seen.uncovered.items())]
    elif tracker.history.steps():
        lines.append("Individual gradients cover all parameters.")
    if seen.coupled:
        lines.append(
            "Batch normalisation in training mode couples the samples: an individual gradient is the contribution "
            "through that sample's activations; they still average to the gradient."
        )
    if seen.regularised:
        lines.append(
            "The gradient has a part that no sample contributed (a regularisation term in the loss): GradNorm and Loss "
            "have it, individual gradients do not."
        )
    if seen.accumulation > 1:
        lines.append(f"A step has {seen.accumulation} backward passes (accumulation); their samples form one batch.")
    if tracker.settings.compiled_seen:
        lines.append("Compiled code runs eagerly on tracked steps: results are equal to rounding.")
    if any(double_backward(quantity.needs) for quantity in tracker.quantities):
        lines.append(
            "Steps that differentiate twice use plain attention and recurrent kernels: results are equal to rounding."
        )
    return lines


def _undefined(tracker: Tracker) -> list[str]:
    lines = []
    for name, reasons in tracker.history.reasons().items():
        for reason, steps in reasons.items():
            first = ", ".join(map(str, steps[:3])) + (" ..." if len(steps) > 3 else "")
            lines.append(f"{name} is undefined at {len(steps)} step(s) ({first}): {reason}.")
    return lines


def _cost(tracker: Tracker) -> list[str]:
    found = ledger({"cost": cost(tracker)})
    if not found.counts.get(WHOLE):
        return [*_plain(found), *_budget(found)]
    return [*_plain(found), *_tiers(found), *_parts(found), *_budget(found)]


def cost(tracker: Tracker) -> dict[str, Any]:
    """What watching has cost so far, as plain data: by part; where steps are metered, also by tier."""
    seconds, counts = tracker.coverage.seconds, tracker.coverage.counts
    known: dict[str, Any] = {
        "seconds": dict(seconds),
        "counts": dict(counts),
        "tracked": counts.get(WHOLE, 0),
    }
    meter = getattr(tracker, "meter", tracker.schedule)
    return known | {"budget": meter.report()} if isinstance(meter, Meter) else known


def _plain(found: Ledger) -> list[str]:
    if found.plain is None:
        return []
    return [f"A plain step takes {_ms(found.plain)}; what a tracked one takes more is its cost."]


def _tiers(found: Ledger) -> list[str]:
    lines = []
    for tier in found.tiers:
        if not tier.alone or tier.mean is None:
            continue
        first = f", the first one {_ms(tier.first)}" if tier.first is not None and tier.alone > 1 else ""
        every = f", now every {tier.interval:.0f} steps" if tier.interval is not None and tier.interval >= 1.5 else ""
        lines.append(
            f"A step that tracks up to {tier.name} takes {_ms(tier.mean)} more{first}; "
            f"{tier.name} was tracked at {_steps(tier.tracked)}{every}."
        )
    return lines


def _parts(found: Ledger) -> list[str]:
    lines = [f"A tracked step costs {_ms(found.each(WHOLE) or 0.0)} in our own code; of that, each time"]
    return lines + [f"  {name}: {_ms(seconds)}" for name, seconds in found.dearest_first() if name != WHOLE]


def _budget(found: Ledger) -> list[str]:
    if found.allowed is None or found.spent is None:
        return []
    after = f" after {found.grace:g} s that are free" if found.grace else ""
    free = f", {found.free:.2f} s of them free" if found.free else ""
    used = f"{found.used:.1%} used" if found.used is not None else "nothing used yet"
    guess = "; by our own clock, until a plain step is seen" if found.estimated else ""
    return [f"Budget: {found.allowed:.0%} of the training time{after}; {used}: {found.spent:.2f} s spent{free}{guess}."]


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"
