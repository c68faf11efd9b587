"""Where a line must be broken: values are missing between its points."""

import numpy as np
from numpy.typing import NDArray

from cockpit.core.source import Series, Steps
from cockpit.panels.runs import Runs
from cockpit.panels.thin import place

WIDE = 20  # times the usual distance on either side
NEAR, FEWEST = 5, 3  # distances that are looked at on each side, and that are enough to know what is usual
SEEN = 0.05  # of the axis: a smaller gap is not worth breaking a line


def segments(series: Series, runs: Runs) -> NDArray[np.int64]:
    """The number of the line that each finite value belongs to; one that is not finite or far away ends a line."""
    there = np.isfinite(series.values)
    lost = np.cumsum(~there)[there]
    steps = series.steps[there]
    if len(steps) < 2:
        return np.zeros(len(steps), dtype=np.int64)
    where, (low, high) = place(steps, runs.log), place(np.array(runs.span), runs.log)
    breaks = (np.diff(lost) > 0) | (_far(steps) & (np.diff(where) > SEEN * (high - low)))
    return np.concatenate([[0], np.cumsum(breaks)]).astype(np.int64)


def _far(steps: Steps) -> NDArray[np.bool_]:
    """Whether the way to the next step is far longer than those before it, or than those after it."""
    ways = np.diff(steps)
    padded = np.concatenate([np.full(NEAR, -1), ways, np.full(NEAR, -1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, NEAR)
    sides = windows[: len(ways)], windows[NEAR + 1 :]
    usual = [np.where((side > 0).sum(1) >= FEWEST, side.max(1), np.inf) for side in sides]
    far: NDArray[np.bool_] = ways > WIDE * np.minimum(*usual)
    return far
