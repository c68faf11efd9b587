"""What the text deck shows, as data: groups of rows, each row one quantity over the steps of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cockpit.core.finite import WAITING
from cockpit.core.kinds import Kind
from cockpit.core.record import COVERED, PROCESS
from cockpit.core.recorded import SUMMED
from cockpit.core.source import Source, Steps, Values

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


@dataclass(frozen=True, eq=False)
class Counted:
    """A histogram along one axis."""

    counts: Values
    edges: Values


@dataclass(frozen=True, eq=False)
class Row:
    """One quantity: a number for each step where it is defined, and for a histogram the last counts."""

    name: str
    reading: str  # what the number is: value, total, sum or spread
    steps: Steps
    values: Values
    counted: Counted | None = None
    undefined: Mapping[str, list[int]] = field(default_factory=dict)  # reason: steps
    covered: float = 1.0  # the smallest share of all elements that a value is of
    process: str | None = None  # the process whose samples the values are of

    @property
    def over(self) -> bool:
        """Whether it has been undefined since its last value; at the last step alone it may only have to wait."""
        last = self.steps[-1] if len(self.steps) else -1
        return sum(1 for steps in self.undefined.values() for step in steps if step > last) > WAITING


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
        groups.append(Group(title, question, [row for row in rows if len(row.values) or row.undefined]))
    return [group for group in groups if group.rows]


def row(source: Source, name: str) -> Row:
    """Read one quantity."""
    shares = source.detail(name, COVERED).defined().values
    found = _row(source, name)
    return replace(found, covered=float(shares.min(initial=1.0)), process=source.constant(name, PROCESS))


def _row(source: Source, name: str) -> Row:
    series, kind, undefined = source.scalar(name), source.kinds.get(name), source.reasons(name)
    if kind is Kind.HISTOGRAM:
        return _spreads(source, name, undefined)
    there = ~np.isin(series.steps, [step for steps in undefined.values() for step in steps])
    reading = "value"
    if kind is Kind.PER_PARAMETER:
        rule = source.constant(name, "total") or ("sum" if name in SUMMED else "norm")
        reading = "sum" if rule == "sum" else "total"
    return Row(name, reading, series.steps[there], series.values[there], undefined=undefined)


def _spreads(source: Source, name: str, undefined: Mapping[str, list[int]]) -> Row:
    counted = source.counted(name).tolist()
    places = np.unique(np.linspace(0, len(counted) - 1, min(SAMPLED, len(counted))).round().astype(int))
    read = {counted[place]: _along_first(source, name, counted[place]) for place in places}
    numbers = {step: number for step, histogram in read.items() if (number := _spread(histogram)) is not None}
    last = read[counted[-1]] if counted else None
    steps, values = np.array([*numbers], dtype=np.int64), np.array([*numbers.values()], dtype=np.float64)
    return Row(name, "spread", steps, values, last, undefined)


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
