"""The largest eigenvalue of the mini-batch Hessian, and the learning rate's limit of stability."""

import numpy as np

from cockpit.core.source import Series
from cockpit.panels._base import Instrument, Panel
from cockpit.panels.lines import Chart, Track, draw, now, track
from cockpit.panels.rows import number
from cockpit.panels.runs import Runs

INSTRUMENT = Instrument(
    "eigenvalue",
    "Largest eigenvalue",
    "curvature",
    "A gorge or a lake?",
    "Sharpest curvature of the loss, and 2 / learning rate, above which plain gradient descent leaves the valley. "
    "Healthy is below or hovering at the line; far above it while the loss jumps: lower the learning rate or warm it "
    "up; far below all the time: there is room for a higher one.",
    ("HessMaxEV", "learning_rate"),
)
NEAR = 30.0  # a limit this many times above the largest eigenvalue is of no interest and stays outside


def limit(rates: Series) -> Series:
    """2 / learning rate where the rate is positive."""
    there = rates.values > 0
    return Series(rates.steps[there], 2 / rates.values[there])


def panel(runs: Runs) -> Panel:
    """Show the eigenvalue with the line of stability, where that line is near enough to matter."""
    values = track(runs, "HessMaxEV", "eigenvalue", error=None)
    limits = [limit(runs.scalar(place, "learning_rate").defined()) for place in range(len(runs))]
    largest = max((float(series.values.max()) for one in values.series if len(series := one.defined())), default=0.0)
    nearest = [float(series.values.min()) for series in limits if len(series)]
    near = [value for value in nearest if value <= NEAR * largest]
    tracks = [values]
    if any(len(series) for series in limits):
        tracks.append(Track("2 / learning rate", "learning_rate", limits, reference=True))
    facts = []
    if len(runs) == 1:
        facts = _now(runs, values, limits[0])
    return draw(INSTRUMENT, runs, Chart(tracks, "eigenvalue", scale="log", include=near, facts=facts))


def _now(runs: Runs, one: Track, limits: Series) -> list[str]:
    facts, values = now(runs, one), runs.seen(one.series[0].defined())
    if len(values) and len(limits) and not runs.since(0, one.name):
        at = max(int(np.searchsorted(limits.steps, values.steps[-1], "right")) - 1, 0)
        facts.append(f"2 / learning rate {number(float(limits.values[at]))}")
    return facts
