"""``pit.explain()``: what is covered, what is not and why, and what it costs."""

from typing import Any

from torch import nn

from cockpit.core.ledger import WHOLE, Ledger, ledger
from cockpit.core.meter import Meter
from cockpit.core.record import percent
from cockpit.engine.needs import double_backward
from cockpit.tracking.tracker import Tracker


def explain(tracker: Tracker, model: nn.Module | None = None) -> str:
    """Return coverage, undefined values and cost as sentences, one a line."""
    lines = [*_what(tracker, model), *_coverage(tracker), *_undefined(tracker), *_cost(tracker)]
    return "\n".join(lines)


def _what(tracker: Tracker, model: nn.Module | None) -> list[str]:
    parameters = tracker._parameters()
    elements = sum(p.numel() for p in parameters.values())
    watched = f"{type(model).__name__}, " if model is not None else ""
    names = {quantity.name for quantity in tracker.quantities}
    steps = sorted({record.step for record in tracker.history if record.name in names})
    seen = f"tracked {_steps(len(steps))} from {steps[0]} to {steps[-1]}" if steps else "no step tracked yet"
    measured = ", ".join(quantity.name for quantity in tracker.quantities) or "none"
    size = f"{len(parameters)} parameters with {elements:,} elements"
    return [f"Watching {watched}{size}; {seen}.", f"Quantities: {measured}."]


def _coverage(tracker: Tracker) -> list[str]:
    seen, lines = tracker.coverage, []
    if seen.flaw:
        lines.append(f"The last tracked step has no individual gradients: {seen.flaw}.")
    elif seen.uncovered:
        lines.append(f"Individual gradients cover {percent(seen.share)} of all elements; left out of the sums:")
        lines += [f"  {name}: {why}" for name, why in sorted(seen.uncovered.items())]
    elif tracker.history.steps():
        lines.append("Individual gradients cover all parameters.")
    taken, batch = seen.samples
    if taken < batch:
        lines.append(f"Individual gradients are those of {taken} random samples of each {batch}; sums are scaled up.")
    if seen.coupled:
        lines.append(
            "Batch normalisation in training mode couples the samples. An individual gradient is the contribution "
            "through that sample's activations; their mean is still the gradient."
        )
    if seen.regularised:
        lines.append(
            "The gradient has a part that no sample contributed, a regularisation term in the loss. GradNorm and Loss "
            "include it, individual gradients do not."
        )
    if seen.accumulation > 1:
        lines.append(f"Each step has {seen.accumulation} backward passes (accumulation); they count as one batch.")
    if tracker.settings.compiled_seen:
        lines.append("Compiled code runs eagerly on tracked steps; results are equal to rounding.")
    if any(double_backward(quantity.needs) for quantity in tracker.quantities):
        lines.append(
            "Attention and recurrent layers use plain kernels on steps that differentiate twice; results are equal to "
            "rounding."
        )
    return lines


def _undefined(tracker: Tracker) -> list[str]:
    lines = []
    for name, reasons in tracker.history.reasons().items():
        for reason, steps in reasons.items():
            first = ", ".join(map(str, steps[:3])) + (" ..." if len(steps) > 3 else "")
            lines.append(f"{name} is undefined at {_steps(len(steps))} ({first}): {reason}.")
    return lines


def _cost(tracker: Tracker) -> list[str]:
    costs = ledger({"cost": cost(tracker)})
    if not costs.counts.get(WHOLE):
        return [*_plain(costs), *_budget(costs)]
    return [*_plain(costs), *_tiers(costs), *_parts(costs), *_budget(costs)]


def cost(tracker: Tracker) -> dict[str, Any]:
    """Return what watching has cost so far, in seconds by part; also by tier if the schedule is a budget."""
    seconds, counts = tracker.coverage.seconds, tracker.coverage.counts
    known: dict[str, Any] = {
        "seconds": dict(seconds),
        "counts": dict(counts),
        "tracked": counts.get(WHOLE, 0),
    }
    meter = getattr(tracker, "meter", tracker.schedule)
    return known | {"budget": meter.report()} if isinstance(meter, Meter) else known


def _plain(costs: Ledger) -> list[str]:
    if costs.plain is None:
        return []
    return [f"A plain step takes {_ms(costs.plain)}. A tracked step costs what it takes beyond that."]


def _tiers(costs: Ledger) -> list[str]:
    lines = []
    for tier in costs.tiers:
        if not tier.alone or tier.mean is None:
            continue
        first = f", the first time {_ms(tier.first)}" if tier.first is not None and tier.alone > 1 else ""
        every = f", now every {tier.interval:.0f} steps" if tier.interval is not None and tier.interval >= 1.5 else ""
        lines.append(
            f"Tracking up to {tier.name} adds {_ms(tier.mean)} to a step{first}; "
            f"{tier.name} was tracked at {_steps(tier.tracked)}{every}."
        )
    return lines


def _parts(costs: Ledger) -> list[str]:
    lines = [f"Cockpit takes {_ms(costs.each(WHOLE) or 0.0)} of a tracked step; of that, each time"]
    return lines + [f"  {name}: {_ms(seconds)}" for name, seconds in costs.dearest_first() if name != WHOLE]


def _budget(costs: Ledger) -> list[str]:
    if costs.allowed is None or costs.spent is None:
        return []
    after = f", after {costs.grace:g} s that are free" if costs.grace else ""
    free = f", {costs.free:.2f} s of them free" if costs.free else ""
    used = f"{costs.used:.1%} used" if costs.used is not None else "nothing used yet"
    guess = " (estimated until a plain step is seen)" if costs.estimated else ""
    spent = f"{costs.spent:.2f} s spent{free}{guess}"
    return [f"Budget: {costs.allowed:.0%} of the training time{after}. So far {used}: {spent}."]


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"
