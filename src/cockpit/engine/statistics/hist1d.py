"""Exact counts of the elements of all g_n in bins, [bins]."""

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

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

    def stacked(g: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        return _counts(g.flatten(1), bins)

    return Statistic("hist1d", "total", chunk, (bins,), rows=rows, stacked=stacked)


def counts(values: Tensor, bins: Bins) -> Tensor:
    """How many values each bin holds: int64, exact."""
    return _counts(values.reshape(1, -1), bins)[0]


def _counts(values: Tensor, bins: Bins) -> Tensor:
    """The same for each row: [rows, bins]."""
    if values.numel():
        low, high = torch.stack(torch.aminmax(values)).tolist()
        reached = bins.reached(low, high)
        if len(reached) <= FEW and low == low:
            return _compared(values, bins, reached)
    return torch.stack([_by_sign(row, bins) for row in values])


def _compared(values: Tensor, bins: Bins, reached: range) -> Tensor:
    """Differences of how many values are at or above each edge."""
    edges = bins.thresholds if values.dtype is torch.float32 else bins.inner
    found = torch.zeros(len(values), bins.count, dtype=torch.int64, device=values.device)
    if not reached:
        found[:, reached.start] = values.shape[1]
        return found
    above = torch.stack([torch.count_nonzero(values >= edges[k], dim=1) for k in reached], 1)
    between = pad(above, (1, 0), value=values.shape[1]) - pad(above, (0, 1))
    found[:, reached.start : reached.stop + 1] = between
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
