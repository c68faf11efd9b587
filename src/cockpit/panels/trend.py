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

Places = NDArray[np.int64]


class Trend(NamedTuple):
    """Medians and the middle 80% of buckets of a curve."""

    steps: Steps
    low: Values
    median: Values
    high: Values
    line: Places  # which unbroken line each belongs to


def trend(series: Series, lines: Places, axis: Axis, log: bool) -> Trend | None:
    """The course of finite values that the axis can hold; None where they are few or hardly scatter.

    Args:
        series: What to follow.
        lines: For each value the unbroken line that it belongs to; no bucket reaches from one into the next.
        axis: The vertical axis.
        log: Whether steps are drawn by their logarithm.
    """
    if len(series) < MANY:
        return None
    starts = _starts(series, lines, log)
    sizes = np.diff(np.append(starts, len(series)))
    dense = sizes >= FEWEST
    if dense.sum() < LEAST:
        return None
    low, median, high = quantiles(series.values, starts)
    if float(np.mean((axis.at(high) - axis.at(low))[dense])) < NOISY:
        return None
    line, last = lines[starts], starts + sizes - 1
    where = starts + sizes // 2
    first = np.append(True, line[1:] != line[:-1])  # a line reaches from its first step to its last
    where = np.where(np.append(first[1:], True), last, where)
    where = np.where(first, starts, where)
    return Trend(series.steps[where], low, median, high, line)


def _starts(series: Series, lines: Places, log: bool) -> Places:
    """Where buckets begin: even on the axis in use; where values are few, each has its own."""
    at = place(series.steps, log)
    count = min(BUCKETS, len(series) // EACH)
    cell = np.floor((at - at[0]) / max(float(at[-1] - at[0]), 1e-9) * count).clip(0, count - 1)
    begins = np.append(True, (np.diff(cell) > 0) | (np.diff(lines) != 0))
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(series)))
    alone = np.repeat(sizes < FEWEST, sizes)
    found: Places = np.flatnonzero(begins | alone)
    return found


def quantiles(values: Values, starts: Places) -> list[Values]:
    """The quantiles of neighbours that are joined from each start to the next, as ``np.quantile`` gives them."""
    sizes = np.diff(np.append(starts, len(values)))
    ordered = values[np.lexsort((values, np.repeat(np.arange(len(starts)), sizes)))]
    found = []
    for end in ENDS:
        at = end * (sizes - 1)
        below = np.floor(at).astype(np.int64)
        above = np.minimum(below + 1, sizes - 1)
        share = at - below
        found.append(ordered[starts + below] * (1 - share) + ordered[starts + above] * share)
    return found
