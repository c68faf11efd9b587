"""What the text deck shows, as data: groups of rows, each row one quantity over the steps of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cockpit.core.kinds import Kind
from cockpit.core.recorded import SUMMED
from cockpit.core.source import Series, Source

Array = NDArray[np.float64]

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "step size": ("are we crossing the valley?", ("Alpha", "Distance", "UpdateSize", "GradNorm")),
    "gradients": (
        "how noisy is the signal?",
        ("NormTest", "InnerTest", "OrthoTest", "GradHist1d", "GradHist2d", "MeanGSNR", "CABS", "EarlyStopping"),
    ),
    "curvature": ("gorge or lake?", ("HessMaxEV", "HessTrace", "TICDiag", "TICTrace")),
    "performance": ("what everybody watches", ("Loss", "learning_rate")),  # and all that has no other place
}
LAST = ("Time", "batch_size", "tracking_seconds")  # of little interest: below what the user logs
SAMPLED = 60  # histograms read for the course of their spread, however long the run is


@dataclass(frozen=True)
class Counted:
    """A histogram along one axis."""

    counts: Array
    edges: Array


@dataclass(frozen=True)
class Row:
    """One quantity: a number for each step where it is defined, and for a histogram the last counts."""

    name: str
    reading: str  # what the number is: value, total, sum or spread
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    counted: Counted | None = None
    undefined: Mapping[str, list[int]] = field(default_factory=dict)  # reason: steps


@dataclass(frozen=True)
class Group:
    """Rows that answer one question."""

    title: str
    question: str
    rows: list[Row]


def deck(source: Source) -> list[Group]:
    """Arrange everything that was recorded; quantities that nobody tracked are left out."""
    names = list(source.kinds)
    placed = {name for _, members in GROUPS.values() for name in members} | set(LAST)
    groups = []
    for title, (question, members) in GROUPS.items():
        chosen = [name for name in members if name in names]
        if title == "performance":
            chosen += [name for name in names if name not in placed] + [name for name in LAST if name in names]
        rows = [row(source, name) for name in chosen]
        groups.append(Group(title, question, [row for row in rows if row.values or row.undefined]))
    return [group for group in groups if group.rows]


def row(source: Source, name: str) -> Row:
    """Read one quantity."""
    kind, undefined = source.kinds[name], source.reasons(name)
    if kind is Kind.HISTOGRAM:
        return _spreads(source, name, undefined)
    missing = {step for steps in undefined.values() for step in steps}
    series = source.scalar(name)
    there = [(int(step), float(value)) for step, value in _pairs(series) if step not in missing]
    reading = "value"
    if kind is Kind.PER_PARAMETER:
        rule = source.constant(name, "total") or ("sum" if name in SUMMED else "norm")
        reading = "sum" if rule == "sum" else "total"
    return Row(name, reading, [step for step, _ in there], [value for _, value in there], undefined=undefined)


def _pairs(series: Series) -> list[tuple[int, float]]:
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def _spreads(source: Source, name: str, undefined: Mapping[str, list[int]]) -> Row:
    counted = source.counted(name).tolist()
    places = np.unique(np.linspace(0, len(counted) - 1, min(SAMPLED, len(counted))).round().astype(int))
    read = {counted[place]: _along_first(source, name, counted[place]) for place in places}
    numbers = {step: number for step, histogram in read.items() if (number := _spread(histogram)) is not None}
    last = read[counted[-1]] if counted else None
    return Row(name, "spread", list(numbers), list(numbers.values()), last, undefined)


def _along_first(source: Source, name: str, step: int) -> Counted:
    """Counts along the first axis, the gradient's."""
    histogram = source.histogram(name, step)
    counts = histogram.counts.astype(float)
    return Counted(counts.reshape(len(counts), -1).sum(1), histogram.edges[0])


def _spread(histogram: Counted) -> float | None:
    """Standard deviation of what was counted, as far as the bins show it."""
    counts, total = histogram.counts, float(histogram.counts.sum())
    if total <= 0:
        return None
    centres = (histogram.edges[1:] + histogram.edges[:-1]) / 2
    mean = float((counts * centres).sum()) / total
    return float(np.sqrt((counts * np.square(centres - mean)).sum() / total))
