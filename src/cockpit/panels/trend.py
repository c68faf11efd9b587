"""The course of a noisy curve: medians of neighbouring values, and the band that holds the middle of them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cockpit.core.source import Series, Steps, Values
from cockpit.panels.axes import Axis
from cockpit.panels.thin import place

BUCKETS = 60  # over the axis
FEWEST = 8  # values of one
MANY = 160  # values from which on there is a band
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
    low, median, high = (np.array([np.quantile(series.values[part], end) for part in parts]) for end in ENDS)
    if float(np.mean(axis.at(high) - axis.at(low))) < NOISY:
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
    """Neighbours together, even on the axis in use, never fewer than some unless the line is shorter."""
    ends, at = place(series.steps[[0, -1]], log), place(series.steps[whole], log)
    wanted = np.searchsorted(at, np.linspace(ends[0], ends[1], BUCKETS + 1)[1:-1])
    cuts: list[int] = []
    for cut in wanted.tolist():
        if cut - (cuts[-1] if cuts else 0) >= FEWEST and len(whole) - cut >= FEWEST:
            cuts.append(cut)
    return np.split(whole, cuts)
