"""What the text deck shows, as data: groups of rows, each row one quantity over the steps of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.plots.log import Steps

Array = NDArray[np.float64]

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "step size": ("are we crossing the valley?", ("Alpha", "Distance", "UpdateSize", "GradNorm")),
    "gradients": (
        "how noisy is the signal?",
        ("NormTest", "InnerTest", "OrthoTest", "GradHist1d", "GradHist2d", "MeanGSNR", "CABS", "EarlyStopping"),
    ),
    "curvature": ("gorge or lake?", ("HessMaxEV", "HessTrace", "TICDiag", "TICTrace")),
    "performance": ("what everybody watches", ("Loss", "Time")),  # and all that has no other place
}
SUMMED = frozenset({"HessTrace"})  # parts of other per-parameter quantities add up as squares
LOGGED = frozenset(  # columns of Cockpit.log: None says that a number was not given
    ["epoch_count", "learning_rate"]
    + [f"{split}_{what}" for split in ("train", "valid", "test") for what in ("loss", "accuracy")]
)


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
    counts: Array | None = None
    limits: tuple[float, float] = (0.0, 0.0)  # of the histogram
    undefined: int = 0


@dataclass(frozen=True)
class Group:
    """Rows that answer one question."""

    title: str
    question: str
    rows: list[Row]


def deck(steps: Steps) -> list[Group]:
    """Arrange everything that was recorded; quantities that nobody tracked are left out."""
    names = list(dict.fromkeys(name for values in steps.values() for name in values))
    placed = {name for _, members in GROUPS.values() for name in members}
    groups = []
    for title, (question, members) in GROUPS.items():
        chosen = [name for name in members if name in names]
        if title == "performance":
            chosen += [name for name in names if name not in placed]
        rows = [_row(name, steps) for name in chosen]
        groups.append(Group(title, question, [row for row in rows if row.values or row.undefined]))
    return [group for group in groups if group.rows]


def _row(name: str, steps: Steps) -> Row:
    numbers: dict[int, float] = {}
    reading, undefined = "value", 0
    last: Counted | None = None
    for step, values in steps.items():
        if name not in values or (values[name] is None and name in LOGGED):
            continue
        histogram = _histogram(values[name])
        number, kind = (_spread(histogram), "spread") if histogram is not None else _reading(name, values[name])
        if number is None:
            undefined += 1
            continue
        numbers[step], reading, last = number, kind, histogram
    row = Row(name, reading, list(numbers), list(numbers.values()), undefined=undefined)
    if last is None:
        return row
    return replace(row, counts=last.counts, limits=(float(last.edges[0]), float(last.edges[-1])))


def _reading(name: str, value: Any) -> tuple[float | None, str]:
    """One number for a scalar or a per-parameter value; None where it is undefined or not a number at all."""
    if isinstance(value, Mapping):
        value = [part.get("norm") if isinstance(part, Mapping) else part for part in value.values()]
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str):
        return _number(value), "value"
    kind = "sum" if name in SUMMED else "total"
    parts = [part for part in map(_number, value) if part is not None]
    if not parts or len(parts) < len(value):
        return None, kind
    return (sum(parts) if name in SUMMED else hypot(*parts)), kind


def _number(value: Any) -> float | None:
    """A float; a log writes what is not finite as text."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else None
    return float(value) if isinstance(value, Real) else None


def _histogram(value: Any) -> Counted | None:
    """Counts along the first axis, the gradient's; from a log or from a live object."""
    if isinstance(value, Mapping) and "hist" in value and "edges" in value:
        counts, edges = np.asarray(value["hist"], dtype=float), value["edges"]
        first = edges if counts.ndim == 1 else edges[0]
    elif hasattr(value, "counts") and hasattr(value, "edges"):
        counts, first = np.asarray(value.counts, dtype=float), value.edges[0]
    else:
        return None
    return Counted(counts.reshape(len(counts), -1).sum(1), np.asarray(first, dtype=float))


def _spread(histogram: Counted) -> float | None:
    """Standard deviation of what was counted, as far as the bins show it."""
    counts, total = histogram.counts, float(histogram.counts.sum())
    if total <= 0:
        return None
    centres = (histogram.edges[1:] + histogram.edges[:-1]) / 2
    mean = float((counts * centres).sum()) / total
    return float(np.sqrt((counts * np.square(centres - mean)).sum() / total))
