"""``pit.explain()``: what is covered, what is not and why, how it was measured, and what it costs."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from cockpit.core.costs import sentences, steps
from cockpit.core.ledger import WHOLE, ledger
from cockpit.core.meter import Meter
from cockpit.core.record import percent
from cockpit.engine.autograd.eager import compilations, is_compiled
from cockpit.engine.needs import double_backward
from cockpit.tracking.coverage import MOST, by_reason
from cockpit.tracking.tracker import Tracker


def explain(tracker: Tracker, model: nn.Module | None = None) -> str:
    """Return samples, coverage, paths, undefined values and cost as sentences, one a line, 25 at most."""
    lines = [*_what(tracker, model), *_coverage(tracker), *_circumstances(tracker), *_compiled(tracker, model)]
    return "\n".join([*lines, *_measured(tracker), *_undefined(tracker), *_cost(tracker)])


def _what(tracker: Tracker, model: nn.Module | None) -> list[str]:
    parameters = tracker._parameters()
    elements = sum(p.numel() for p in parameters.values())
    watched = f"{type(model).__name__}, " if model is not None else ""
    names = {quantity.name for quantity in tracker.quantities}
    tracked = sorted({record.step for record in tracker.history if record.name in names})
    seen = f"tracked {steps(len(tracked))} from {tracked[0]} to {tracked[-1]}" if tracked else "no step tracked yet"
    measured = ", ".join(quantity.name for quantity in tracker.quantities) or "none"
    size = f"{len(parameters)} parameters with {elements:,} elements"
    return [f"Watching {watched}{size}; {seen}.", f"Quantities: {measured}."]


def _compiled(tracker: Tracker, model: nn.Module | None) -> list[str]:
    if tracker.settings.compiled == compilations() and not (model is not None and is_compiled(model)):
        return []
    if tracker.settings.stays_compiled:
        return [f"Compiled code stays compiled on tracked steps: {tracker.settings.stays_compiled}."]
    return ["Compiled code runs eagerly on tracked steps; results are equal to rounding."]


def _coverage(tracker: Tracker) -> list[str]:
    seen, lines = tracker.coverage, []
    if seen.found:
        lines.append(f"Samples: {seen.found}.")
    if seen.flaw:
        lines.append(f"The last tracked step has no individual gradients: {seen.flaw}.")
    elif seen.uncovered:
        lines.append(f"Individual gradients cover {percent(seen.share)} of all elements; left out of the sums:")
        lines += [f"  {line}" for line in by_reason(seen.uncovered)]
    elif tracker.history.steps():
        lines.append("Individual gradients cover all parameters.")
    return lines


def _circumstances(tracker: Tracker) -> Iterator[str]:
    seen = tracker.coverage
    yield from (f"{said[0].upper()}{said[1:]}." for said in sorted(seen.said))
    if tracker.settings.process:
        yield f"Losses and gradients are those of the samples of {tracker.settings.process}."
    if seen.coupled:
        yield (
            "Batch normalisation in training mode couples the samples. An individual gradient is the contribution "
            "through that sample's activations; their mean is still the gradient."
        )
    if seen.accumulation > 1:
        yield f"Each step has {seen.accumulation} backward passes (accumulation); they count as one batch."
    if any(double_backward(quantity.needs) for quantity in tracker.quantities):
        yield (
            "Attention and recurrent layers use plain kernels on steps that differentiate twice; results are equal to "
            "rounding."
        )


def _measured(tracker: Tracker) -> Iterator[str]:
    """Which path each statistic took, and what the allowances decided."""
    if tracker.coverage.estimated:
        yield "The Gauss-Newton diagonal is a Monte Carlo estimate: a sample has too many outputs for the exact one."
    taken, batch = tracker.coverage.samples
    paths = tracker.settings.paths
    if paths:
        ways = {name: " and ".join(sorted(way for one, way in paths if one == name)) for name, _ in sorted(paths)}
        yield f"Statistics: {', '.join(f'{name} by {way}' for name, way in ways.items())}."
    if taken < batch:
        yield f"Individual gradients are those of {taken} random samples of each {batch}; sums are scaled up."
    if said := tracker.settings.allowance.said:
        yield f"What samples contribute is kept until the step ends: {said}."


def _undefined(tracker: Tracker) -> list[str]:
    shared: dict[str, dict[str, list[int]]] = {}
    for name, reasons in tracker.history.reasons().items():
        for reason, where in reasons.items():
            shared.setdefault(reason, {})[name] = where
    lines = []
    for reason, names in list(shared.items())[:MOST]:
        where = sorted({step for found in names.values() for step in found})
        first = ", ".join(map(str, where[:3])) + (" ..." if len(where) > 3 else "")
        verb = "are" if len(names) > 1 else "is"
        lines.append(f"{', '.join(names)} {verb} undefined at {steps(len(where))} ({first}): {reason}.")
    return lines + ([f"{len(shared) - MOST} more reasons: see history.reasons()."] if len(shared) > MOST else [])


def _cost(tracker: Tracker) -> list[str]:
    return sentences(ledger({"cost": cost(tracker)}))


def cost(tracker: Tracker) -> dict[str, Any]:
    """Return what watching has cost so far, in seconds by part; also by tier if the schedule is a budget."""
    seconds, counts = tracker.coverage.seconds, tracker.coverage.counts
    known: dict[str, Any] = {"seconds": dict(seconds), "counts": dict(counts), "tracked": counts.get(WHOLE, 0)}
    meter = getattr(tracker, "meter", tracker.schedule)
    return known | {"budget": meter.report()} if isinstance(meter, Meter) else known
