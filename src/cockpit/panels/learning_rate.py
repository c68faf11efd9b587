"""The learning rate of every parameter group."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from cockpit.core.kinds import Kind
from cockpit.panels._base import Instrument, Panel
from cockpit.panels.lines import Chart, Track, draw, last, track
from cockpit.panels.runs import Runs

INSTRUMENT = Instrument(
    "learning-rate",
    "Learning rate",
    "performance",
    "What does the schedule do?",
    "Learning rate of each parameter group as the optimizer used it. Healthy is the schedule you meant; when it is "
    "not, look for a scheduler that is stepped too often, too seldom or not at all.",
    ("learning_rate",),
)
PATTERN = re.compile(r"learning_rate(\[\d+\])?")


def panel(runs: Runs) -> Panel:
    """Show one line for each parameter group."""
    names = [name for name in runs.names(Kind.SCALAR) if PATTERN.fullmatch(name)] or ["learning_rate"]
    tracks = [track(runs, name, _label(name), error=None) for name in names]
    facts = [f"now {last(tracks[0].series[0])}"] if len(runs) == 1 and last(tracks[0].series[0]) else []
    return draw(INSTRUMENT, runs, Chart(tracks, "learning rate", scale=_scale(tracks), facts=facts))


def _scale(tracks: Sequence[Track]) -> Literal["log", "linear"]:
    """Linear shows the shape of a schedule, unless most of it lies at the bottom."""
    rates = np.concatenate([series.defined().values for one in tracks for series in one.series] or [np.empty(0)])
    return "log" if len(rates) and rates.min() > 0 and np.median(rates) < rates.max() / 30 else "linear"


def _label(name: str) -> str:
    return f"group {name[14:-1]}" if name.endswith("]") else "group 0"
