"""The loss, and every other loss the user logs."""

from cockpit.panels._base import Instrument, Panel
from cockpit.panels.lines import Chart, draw, labelled, track
from cockpit.panels.metrics import losses
from cockpit.panels.runs import Runs
from cockpit.panels.undefined import not_finite

INSTRUMENT = Instrument(
    "loss",
    "Loss",
    "performance",
    "Does it learn?",
    "Mini-batch loss of every step, and losses that were logged. Healthy is falling, first fast, then slowly; a red "
    "cross marks a step where it was not finite: lower the learning rate, clip gradients or look at that batch; flat "
    "from the start: look at the gradients; a validation loss that turns up: stop or regularise.",
    ("Loss",),
)


def panel(runs: Runs) -> Panel:
    """Show the loss of each step and the losses that were logged."""
    tracks = [track(runs, "Loss", "mini-batch")] + [track(runs, name, error=None) for name in losses(runs)]
    present = [one for one in tracks if any(len(series) for series in one.series)]
    facts = []
    for place, series in enumerate(tracks[0].series):
        if runs.broken(place):
            continue  # the alarm says it
        broken = not_finite(runs, place, "Loss", series)
        whose = f"{runs.labels[place]} " if runs.several else ""
        facts += [f"{whose}not finite from {runs.when(broken[0])}"] if len(broken) else []  # first: this must be read
    return draw(INSTRUMENT, runs, Chart(present, "loss", facts=[*facts, *labelled(runs, present)]))
