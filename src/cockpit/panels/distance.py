"""Distance from the start and length of each update, together."""

from dataclasses import replace

from cockpit.core.source import Series
from cockpit.panels._base import Instrument, Panel
from cockpit.panels.lines import Chart, Track, draw, labelled, track
from cockpit.panels.runs import Runs

INSTRUMENT = Instrument(
    "distance",
    "Distance and update size",
    "step size",
    "Are we making progress?",
    "How far the parameters are from where they began, and how far each step moves them. Healthy is a distance that "
    "grows while updates shrink slowly; a flat distance while updates go on is diffusion: lower the learning rate; "
    "updates near 0 from the start: raise it, or look for a layer that gets no gradient.",
    ("Distance", "UpdateSize"),
)


def panel(runs: Runs) -> Panel:
    """Show both on one logarithmic axis: they have the same unit."""
    tracks = [_moved(track(runs, "Distance", "distance from start")), track(runs, "UpdateSize", "update size")]
    present = [one for one in tracks if any(len(series) for series in one.series)]
    return draw(INSTRUMENT, runs, Chart(present, "length", scale="log", facts=labelled(runs, present)))


def _moved(one: Track) -> Track:
    """Without the start itself, whose distance is 0 by definition."""
    later = [
        series if series.values[:1].any() else Series(series.steps[1:], series.values[1:]) for series in one.series
    ]
    return replace(one, series=later)
