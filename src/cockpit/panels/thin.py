"""Fewer points that look the same: minimum and maximum of each bucket, and both ends."""

import numpy as np
from numpy.typing import NDArray

from cockpit.core.source import Series, Steps, Values


def window(steps: Steps, span: tuple[float, float] | None) -> slice:
    """The steps within a span and one beyond each border, so that a line runs to the edge of the picture."""
    if span is None:
        return slice(0, len(steps))
    first = int(np.searchsorted(steps, span[0], "left")) - 1
    last = int(np.searchsorted(steps, span[1], "right")) + 1
    return slice(max(first, 0), min(last, len(steps)))


def place(steps: Steps | Values, log: bool) -> Values:
    """Where a step lies on the axis in use."""
    where = np.asarray(steps, dtype=np.float64)
    return np.log1p(np.maximum(where, 0.0)) if log else where


def chosen(series: Series, points: int, log: bool) -> NDArray[np.intp]:
    """Indices of at most ``points`` values: first, last, smallest and largest of each bucket even on the axis."""
    count = len(series)
    if count <= points:
        return np.arange(count)
    where = place(series.steps, log)
    edges = np.linspace(where[0], where[-1], max((points - 2) // 2, 1) + 1)[:-1]
    starts = np.unique(np.searchsorted(where, edges, "left"))
    starts = starts[starts < count]
    sizes = np.diff(np.append(starts, count))
    kept = [np.array([0, count - 1])]
    for extreme in (np.minimum, np.maximum):
        found = np.flatnonzero(series.values == np.repeat(extreme.reduceat(series.values, starts), sizes))
        bucket = np.searchsorted(starts, found, "right")
        kept.append(found[np.unique(bucket, return_index=True)[1]])
    return np.unique(np.concatenate(kept))


def thin(series: Series, points: int, log: bool = False, span: tuple[float, float] | None = None) -> Series:
    """Thin a series of finite values to at most ``points`` within a span; extremes and ends stay."""
    part = window(series.steps, span)
    series = Series(series.steps[part], series.values[part])
    keep = chosen(series, points, log)
    return Series(series.steps[keep], series.values[keep])
