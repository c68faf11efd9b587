"""``pit.explain()``: what is covered, what is not, why, and what it costs."""

from torch import nn

from cockpit.core.schedule import Budget
from cockpit.engine.needs import double_backward
from cockpit.tracker import Tracker


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
    seconds, counts = tracker.coverage.seconds, tracker.coverage.counts
    if not counts.get("tracked steps"):
        return []
    lines = [f"A tracked step costs {1e3 * seconds['tracked steps'] / counts['tracked steps']:.2f} ms; of that"]
    parts = sorted((name for name in seconds if name != "tracked steps"), key=lambda name: -seconds[name])
    lines += [f"  {name}: {1e3 * seconds[name] / counts['tracked steps']:.2f} ms" for name in parts]
    schedule = tracker.schedule
    if isinstance(schedule, Budget):
        lines.append(
            f"Budget: {schedule.share:.0%} of the training time after {schedule.grace:g} s; "
            f"{schedule.tracked} steps tracked, {schedule.spent:.2f} s spent."
        )
    return lines
