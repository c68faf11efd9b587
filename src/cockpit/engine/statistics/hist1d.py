"""Exact counts of the elements of all g_n in bins, [bins]."""

from collections.abc import Mapping
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from cockpit.engine.statistics._base import At, Shortcut, Statistic
from cockpit.engine.statistics.bins import Bins, tally
from cockpit.layers.forms import AnyForm, Factored, Indexed, wide

FEW = 6  # edges inside the range of the values up to which comparing is quicker than looking up


@cache
def hist1d(bins: Bins) -> Statistic:
    """Counts in these bins; the outermost ones hold everything beyond."""

    def chunk(g: Tensor, at: At) -> Tensor:
        return counts(g, bins)

    def rows(rows: Indexed, at: At) -> Tensor:
        found = counts(rows.value, bins)
        found[bins.near_zero[2]] += rows.zeros
        return found

    def stacked(g: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        return _counts(g.flatten(1), bins)

    def by_signs(form: AnyForm, at: At, elements: int) -> Shortcut | None:
        """Signs of factors tell the bins of all products that are small."""
        if not isinstance(form, Factored) or not form.outer or form.row.is_cuda:
            return None
        operations = form.samples * (form.row.shape[3] + form.col.shape[3])
        return Shortcut(operations, partial(_of_outer_products, form, bins, elements))

    return Statistic("hist1d", "total", chunk, (bins,), rows=rows, shortcut=by_signs, stacked=stacked)


def counts(values: Tensor, bins: Bins) -> Tensor:
    """How many values each bin holds: int64, exact."""
    return _counts(values.reshape(1, -1), bins)[0]


def _of_outer_products(form: Factored, bins: Bins, elements: int) -> Tensor:
    """Rows of g_n whose largest element lies inside the first edges are counted by signs, the others formed."""
    row, col = wide(form.row)[:, 0, 0] * form.factor, wide(form.col)[:, 0, 0]
    radius, below, above = bins.near_zero
    small = row.abs() * col.abs().amax(1, keepdim=True) < radius
    against_positive = ((row > 0) & small).sum(1) * (col < 0).sum(1)
    against_negative = ((row < 0) & small).sum(1) * (col > 0).sum(1)
    negative = (against_positive + against_negative).sum()
    found = torch.zeros(bins.count, dtype=torch.int64, device=row.device)
    found[below] += negative
    found[above] += small.sum() * col.shape[1] - negative
    sample, place = torch.nonzero(~small, as_tuple=True)
    step = max(1, elements // max(1, col.shape[1]))
    for n, o in zip(sample.split(step), place.split(step), strict=True):
        found += counts(row[n, o, None] * col[n], bins)
    return found


def _counts(values: Tensor, bins: Bins) -> Tensor:
    """The same for each row: [rows, bins]."""
    if values.numel() and not values.is_cuda:  # the host waits for nothing
        low, high = torch.stack(torch.aminmax(values)).tolist()
        reached = bins.reached(low, high)
        if len(reached) <= FEW and low == low:
            return _compared(values, bins, reached)
    place = bins.index(values)
    if len(values) > 1:
        place += torch.arange(0, len(values) * bins.count, bins.count, dtype=place.dtype, device=place.device)[:, None]
    return tally(place, len(values) * bins.count).view(len(values), bins.count)


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
