"""Exact counts of the elements of all g_n in bins, [bins]."""

from functools import cache

import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Rows, Statistic
from cockpit.engine.statistics.bins import Bins

FEW = 6  # edges inside the range of the values up to which comparing is quicker than looking up


@cache
def hist1d(bins: Bins) -> Statistic:
    """Counts in these bins; the outermost ones hold everything beyond."""

    def chunk(g: Tensor, at: At) -> Tensor:
        return counts(g, bins)

    def rows(rows: Rows, at: At) -> Tensor:
        found = counts(rows.value, bins)
        found[bins.near_zero[2]] += rows.zeros
        return found

    return Statistic("hist1d", "total", chunk, (bins,), rows=rows)


def counts(values: Tensor, bins: Bins) -> Tensor:
    """How many values each bin holds: int64, exact."""
    if values.device.type == "cpu" and values.numel():
        low, high = (float(end) for end in torch.aminmax(values))
        reached = bins.reached(low, high)
        if len(reached) <= FEW and low == low:
            return _compared(values, bins, reached)
    return torch.bincount(bins.index(values).reshape(-1), minlength=bins.count)


def _compared(values: Tensor, bins: Bins, reached: range) -> Tensor:
    """Differences of how many values are at or above each edge."""
    edges = bins.thresholds if values.dtype is torch.float32 else bins.inner
    found, above = [0] * bins.count, values.numel()
    for k in reached:
        more = int(torch.count_nonzero(values >= edges[k]))
        found[k], above = above - more, more
    found[reached.stop] = above
    return torch.tensor(found, device=values.device)
