"""Time: how fast training goes, and what watching it costs."""

import numpy as np

from cockpit.core.ledger import ledger
from cockpit.core.source import Series, Source
from cockpit.panels._base import Instrument, Panel
from cockpit.panels.lines import Chart, Track, draw
from cockpit.panels.rows import number
from cockpit.panels.runs import Runs

INSTRUMENT = Instrument(
    "cost",
    "Time for a step",
    "performance",
    "How fast is training, and what does watching cost?",
    "Seconds for one training step, and what tracking adds to a tracked one. Healthy is level, and a share of tracking "
    "that you can afford; when it is too dear, track less often (every=, budget=) or fewer quantities.",
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


def overhead(times: Series, costs: Series) -> float | None:
    """What tracking cost, as a share of the time of everything else."""
    if len(times) < 2 or not len(costs):
        return None
    whole = float(times.values[-1] - times.values[0])
    spent = float(costs.values[(costs.steps >= times.steps[0]) & (costs.steps < times.steps[-1])].sum())
    return spent / (whole - spent) if whole > spent else None


def tracking(runs: Runs, place: int) -> Series:
    """Seconds that tracking each step cost: all of it, or else what the quantity Time knows."""
    whole = runs.scalar(place, "tracking_seconds").defined()
    return whole if len(whole) else runs.detail(place, "Time", "tracking").defined()


def _added(run: Source, times: Series, costs: Series) -> float | None:
    """What tracking adds to the training: as it was metered against plain steps, or else by our own clock."""
    found = ledger(run.metadata)
    return found.spent / found.trained if found.spent and found.trained else overhead(times, costs)


def panel(runs: Runs) -> Panel:
    """Show seconds for a step and seconds for tracking one, on one axis."""
    times = [runs.scalar(place, "Time").defined() for place in range(len(runs))]
    costs = [tracking(runs, place) for place in range(len(runs))]
    steps = [step_seconds(time, cost) for time, cost in zip(times, costs, strict=True)]
    tracks = [Track("training step", "Time", steps), Track("tracking it", "tracking_seconds", costs)]
    present = [one for one in tracks if any(len(series) for series in one.series)]
    facts = []
    if len(runs) == 1 and (share := _added(runs.sources[0], times[0], costs[0])) is not None:
        whole = [f"{number(float(times[0].values[-1]))} s in all"] if len(times[0]) else []
        facts = [*whole, f"tracking adds {share:.1%}"]
    return draw(INSTRUMENT, runs, Chart(present, "seconds", scale="log", facts=facts))
