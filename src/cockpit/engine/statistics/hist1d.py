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
    flat = values.reshape(-1)
    if flat.numel():
        low, high = torch.stack(torch.aminmax(flat)).tolist()
        reached = bins.reached(low, high)
        if len(reached) <= FEW and low == low:
            return _compared(flat, bins, reached)
    return _by_sign(flat, bins)


def _compared(values: Tensor, bins: Bins, reached: range) -> Tensor:
    """Differences of how many values are at or above each edge."""
    edges = bins.thresholds if values.dtype is torch.float32 else bins.inner
    found = torch.zeros(bins.count, dtype=torch.int64, device=values.device)
    found[reached.start] = values.numel()
    for k in reached:
        more = torch.count_nonzero(values >= edges[k])
        found[k] -= more
        found[k + 1] = more
    return found


def _by_sign(values: Tensor, bins: Bins) -> Tensor:
    """Most values are small: their sign decides; only what lies beyond the first edges is looked up."""
    radius, below, above = bins.near_zero
    beyond = values[values.abs() >= radius]
    negative = torch.count_nonzero(values < 0) - torch.count_nonzero(beyond < 0)
    found = torch.bincount(bins.index(beyond), minlength=bins.count)
    found[below] += negative
    found[above] += values.numel() - len(beyond) - negative
    return found
