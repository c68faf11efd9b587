"""The course of a noisy curve: medians of neighbouring values, and the band that holds the middle of them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cockpit.core.source import Series, Steps, Values
from cockpit.panels.axes import Axis
from cockpit.panels.thin import place

BUCKETS, EACH = 60, 12  # at most, over the axis; values of one, where there are fewer
FEWEST = 8  # values of one that has a median; fewer are drawn as they are
LEAST = 4  # buckets with a median
MANY = 120  # values from which on there is a band
NOISY = 0.04  # of the height of the picture: a thinner band is a line
ENDS = (0.1, 0.5, 0.9)  # quantiles


class Trend(NamedTuple):
    """Medians and the middle 80 % of buckets of a curve."""

    steps: Steps
    low: Values
    median: Values
    high: Values
    line: NDArray[np.int64]  # which unbroken line each belongs to


def trend(series: Series, lines: NDArray[np.int64], axis: Axis, log: bool) -> Trend | None:
    """The course of finite values that the axis can hold; None where they are few or hardly scatter.

    Args:
        series: What to follow.
        lines: For each value the unbroken line that it belongs to; no bucket reaches from one into the next.
        axis: The vertical axis.
        log: Whether steps are drawn by their logarithm.
    """
    if len(series) < MANY:
        return None
    parts = [part for number in np.unique(lines) for part in _buckets(series, np.flatnonzero(lines == number), log)]
    dense = np.array([len(part) >= FEWEST for part in parts])
    if dense.sum() < LEAST:
        return None
    low, median, high = (np.array([np.quantile(series.values[part], end) for part in parts]) for end in ENDS)
    if float(np.mean((axis.at(high) - axis.at(low))[dense])) < NOISY:
        return None
    where = [series.steps[part[len(part) // 2]] for part in parts]
    line = np.array([lines[part[0]] for part in parts])
    for at, part in enumerate(parts):  # a line reaches from its first step to its last
        if at == 0 or line[at - 1] != line[at]:
            where[at] = series.steps[part[0]]
        elif at == len(parts) - 1 or line[at + 1] != line[at]:
            where[at] = series.steps[part[-1]]
    return Trend(np.array(where), low, median, high, line)


def _buckets(series: Series, whole: NDArray[np.intp], log: bool) -> list[NDArray[np.intp]]:
    """Neighbours together, even on the axis in use; where they are few, each value stands for itself."""
    ends, at = place(series.steps[[0, -1]], log), place(series.steps[whole], log)
    count = min(BUCKETS, len(series) // EACH)
    cuts = np.searchsorted(at, np.linspace(ends[0], ends[1], count + 1)[1:-1])
    found: list[NDArray[np.intp]] = []
    for part in np.split(whole, cuts):
        found += [part] if len(part) >= FEWEST else list(part[:, None])
    return found
