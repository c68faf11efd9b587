"""What the text deck shows, as data: groups of rows, each row one quantity over the steps of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Row:
    """One quantity: a number for each step where it is defined, and for a histogram the last counts."""

    name: str
    reading: str  # what the number is: value, total, sum or spread
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    counts: Array | None = None
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
    reading, counts, undefined = "value", None, 0
    for step, values in steps.items():
        if name not in values:
            continue
        number, kind, found = _reading(name, values[name])
        if number is None:
            undefined += 1
            continue
        numbers[step], reading = number, kind
        counts = found if found is not None else counts
    return Row(name, reading, list(numbers), list(numbers.values()), counts, undefined)


def _reading(name: str, value: Any) -> tuple[float | None, str, Array | None]:
    """One number for a value of any kind; None where it is undefined or not a number at all."""
    if (histogram := _histogram(value)) is not None:
        counts, centres = histogram
        return _spread(counts, centres), "spread", counts
    if isinstance(value, Mapping):
        value = [part.get("norm") if isinstance(part, Mapping) else part for part in value.values()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        parts = [_number(part) for part in value]
        known = np.array([part for part in parts if part is not None])
        if not parts or len(known) < len(parts):
            return None, "total", None
        if name in SUMMED:
            return float(known.sum()), "sum", None
        return float(np.sqrt(np.square(known).sum())), "total", None
    return _number(value), "value", None


def _number(value: Any) -> float | None:
    """A float; a log writes what is not finite as text."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    return float(value) if value in ("nan", "inf", "-inf") else None


def _histogram(value: Any) -> tuple[Array, Array] | None:
    """Counts and bin centres along the first axis, the gradient's."""
    if isinstance(value, Mapping) and "hist" in value and "edges" in value:
        counts, edges = np.asarray(value["hist"], dtype=float), value["edges"]
        first = edges if counts.ndim == 1 else edges[0]
    elif hasattr(value, "counts") and hasattr(value, "edges"):
        counts, first = np.asarray(value.counts, dtype=float), value.edges[0]
    else:
        return None
    marginal: Array = counts.reshape(len(counts), -1).sum(1)
    limits = np.asarray(first, dtype=float)
    return marginal, (limits[1:] + limits[:-1]) / 2


def _spread(counts: Array, centres: Array) -> float | None:
    """Standard deviation of what was counted, as far as the bins show it."""
    total = float(counts.sum())
    if total <= 0:
        return None
    mean = float((counts * centres).sum()) / total
    return float(np.sqrt((counts * np.square(centres - mean)).sum() / total))
