"""What the user logs: accuracies and other shares together, anything else in a panel of its own."""

from cockpit.core.kinds import Kind
from cockpit.panels._base import Instrument, Panel
from cockpit.panels.learning_rate import PATTERN
from cockpit.panels.lines import Chart, draw, labelled, track
from cockpit.panels.names import EPOCH, OURS
from cockpit.panels.runs import Runs

INSTRUMENT = Instrument(
    "metrics",
    "Metrics",
    "performance",
    "Is it any good?",
    "What you log with pit.log(accuracy=...): all shares between 0 and 1 on one axis, or else the first metric. "
    "Healthy is rising and then level; training far above validation is overfitting: regularise, augment or stop "
    "earlier; stuck at chance: look at the gradients and the data.",
    (),
)


def logged(runs: Runs) -> list[str]:
    """The scalars that are neither quantities nor context, in the order of appearance."""
    return [name for name in runs.names(Kind.SCALAR) if name not in OURS and not PATTERN.fullmatch(name)]


def losses(runs: Runs) -> list[str]:
    """Logged numbers that are losses by name: they belong beside the loss."""
    return [name for name in logged(runs) if "loss" in name.lower()]


def shown(runs: Runs) -> list[str]:
    """The logged numbers of the deck's panel: all shares, or else the first one."""
    others = [name for name in logged(runs) if name not in (EPOCH, *losses(runs)) and _has_values(runs, name)]
    shares = [name for name in others if _is_share(runs, name)]
    return shares[:4] or others[:1]


def panel(runs: Runs) -> Panel:
    """Show the user's metrics."""
    names = shown(runs)
    if not names:
        return INSTRUMENT.nothing("No metric was logged: pit.log(accuracy=...) after a step shows it here.")
    tracks = [track(runs, name, error=None) for name in names]
    shares = all(_is_share(runs, name) for name in names)
    axis_title = "share" if shares else names[0]
    chart = Chart(tracks, axis_title, scale="linear" if shares else "auto", facts=labelled(runs, tracks))
    return draw(INSTRUMENT, runs, chart)


def _has_values(runs: Runs, name: str) -> bool:
    return any(len(runs.scalar(place, name).defined()) for place in range(len(runs)))


def _is_share(runs: Runs, name: str) -> bool:
    values = [runs.scalar(place, name).defined().values for place in range(len(runs))]
    return all(((part >= 0) & (part <= 1)).all() for part in values)
