"""Time: how fast training goes, and what watching it costs."""

from dataclasses import replace

import numpy as np

from cockpit.core.source import Series
from cockpit.core.spending import overhead, spending
from cockpit.panels._base import Instrument, Panel
from cockpit.panels.clock import Clocked
from cockpit.panels.lines import Chart, Track, draw
from cockpit.panels.rows import number
from cockpit.panels.runs import Runs

__all__ = ["overhead", "panel", "step_seconds", "tracking"]

INSTRUMENT = Instrument(
    "cost",
    "Time for a step",
    "performance",
    "How fast is training, and what does watching cost?",
    "Seconds for one training step, and what tracking adds to a tracked one. Healthy is level, and a share of tracking "
    "that you can afford; when it costs too much, track less often (every=, budget=) or fewer quantities.",
    ("Time", "tracking_seconds"),
)


def step_seconds(times: Series, costs: Series) -> Series:
    """Seconds for each step between two tracked ones, without what tracking the first of them cost."""
    if len(times) < 2:
        return Series(times.steps[:0], times.values[:0])
    spent = np.zeros(len(times))
    spent[np.isin(times.steps, costs.steps)] = costs.values[np.isin(costs.steps, times.steps)]
    elapsed = np.diff(times.values) - spent[:-1]
    return Series(times.steps[1:], np.maximum(elapsed, 0.0) / np.diff(times.steps))


def tracking(runs: Runs, place: int) -> Series:
    """Seconds that tracking each step cost: all of it, or else what the quantity Time knows."""
    whole = runs.scalar(place, "tracking_seconds").defined()
    return whole if len(whole) else runs.detail(place, "Time", "tracking").defined()


def _placed(runs: Runs, place: int, series: Series) -> Series:
    """A series of counted steps on the axis in use."""
    source = runs.sources[place]
    return Series(source.times(series.steps), series.values) if isinstance(source, Clocked) else series


def panel(runs: Runs) -> Panel:
    """Show seconds for a step and seconds for tracking one, on one axis."""
    counted = Runs(runs.plain, replace(runs.view, x="step"))
    times = [counted.scalar(place, "Time").defined() for place in range(len(runs))]
    spent = [tracking(counted, place) for place in range(len(runs))]
    costs = [tracking(runs, place) for place in range(len(runs))]
    steps = [_placed(runs, place, step_seconds(times[place], spent[place])) for place in range(len(runs))]
    tracks = [Track("training", "Time", steps), Track("tracking", "tracking_seconds", costs)]
    present = [one for one in tracks if any(len(series) for series in one.series)]
    facts = []
    if len(runs) == 1 and (told := spending(runs.plain[0]).told):
        whole = [f"{number(float(times[0].values[-1]))} s in all"] if len(times[0]) else []
        facts = [*told.split(", "), *whole]
    return draw(INSTRUMENT, runs, Chart(present, "seconds", scale="log", facts=facts))
