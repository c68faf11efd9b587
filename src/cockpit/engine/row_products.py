"""Exact histogram of products r * c of single precision, for many r and the same list of c for all r of a sample.

For one r the rounded product grows with c. So the products at or above an edge are those of the c at or above some
float32, which is computed exactly: the work grows with the number of edges that are reached, not of products.
"""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine.statistics.bins import Bins

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Whole = NDArray[np.int64]

OVERFLOW = (2 - 2.0**-24) * 2.0**127  # from here on products round to infinity
CHUNK = 2**19  # comparisons held at once: as numbers, they should stay in the cache

# Seconds for all the rest, for each comparison, number to sort, and look-up: only their proportions matter.
BASE, COMPARE, SORT, SEARCH = 150e-6, 0.1e-9, 4.2e-9, 40e-9


def seconds(edges: float, samples: int, columns: int) -> float:
    """About what :func:`count` takes."""
    return BASE + min(1.5 * COMPARE * edges * columns, SORT * samples * columns + SEARCH * edges)


def count(rows: Whole, row: Floats, columns: Tensor, tops: Floats, signed: bool, bins: Bins) -> Whole:
    """Histogram of fl(row_no col_ni) over all i and those (n, o) whose places in ``row`` [N, O] are given, ascending.

    All numbers are finite. ``tops``: the largest absolute col_ni of each sample, [N]; ``signed``: some col_ni
    are negative.
    """
    sample, r = rows // row.shape[1], row.reshape(-1).take(rows)
    first, reach = _reached(r, tops.take(sample), signed, bins)
    which = np.repeat(np.arange(len(r)), reach)
    edge = np.arange(len(which)) + np.repeat(first + reach - np.cumsum(reach), reach)  # inner edges, r after r
    bound = _bounds(r, which, edge, bins)
    below = _below(columns, sample.take(which), bound)
    found = np.where((r > 0).take(which), columns.shape[1] - below, below)
    above = np.zeros(bins.count + 1)  # products at or above the lower edge of each bin, and the end
    above[:-1] = np.bincount(first, minlength=bins.count)[::-1].cumsum()[::-1] * columns.shape[1]
    above[1:] += np.bincount(edge, found, bins.count)[: bins.count]
    counts: Whole = -np.diff(above).astype(np.int64)
    return counts


def _reached(r: Floats, top: Floats, signed: bool, bins: Bins) -> tuple[Whole, Whole]:
    """First bin that the products of each r may fall into, and the number of edges above it that they may reach."""
    with np.errstate(over="ignore", under="ignore"):
        ends = (r * top).astype(np.float64)
    lowest, highest = (-abs(ends), abs(ends)) if signed else (np.minimum(ends, 0), np.maximum(ends, 0))
    inverse, edges, last = bins.count / (bins.high - bins.low), bins.edges, bins.count - 1
    first, beyond = (
        np.clip((end - bins.low) * inverse, 0, last).astype(np.int64) for end in (lowest, highest)
    )  # up to rounding
    first -= (edges.take(first) > lowest) & (first > 0)
    beyond += (edges.take(beyond + 1) <= highest) & (beyond < last)
    return first, beyond - first


def _bounds(r: Floats, which: Whole, edge: Whole, bins: Bins) -> Floats:
    """The float32 so that products of r[which] with numbers c >= it, or c < it if r < 0, are at or above the edge."""
    size, needed = np.abs(r).astype(np.float64).take(which), boundaries(bins).take(edge)
    with np.errstate(over="ignore", under="ignore"):
        least = (needed / size).astype(np.float32)  # |r| * least is nearly what is needed; this product is exact:
        steps = (size * least < needed).astype(np.int32) - (r < 0).take(which)  # least |r| c: to c < bound by one more
    bits = least.view(np.int32)
    bits += steps * ((bits >> 31) | 1)  # to the next float32, or the one before
    found: Floats = least * np.sign(r).take(which)
    return found


def _below(columns: Tensor, sample: Whole, bound: Floats) -> Whole:
    """Numbers below each bound in the row ``sample`` of ``columns``; samples ascend."""
    each = np.bincount(sample, minlength=len(columns))
    present = np.flatnonzero(each)
    if len(present) < len(each):
        columns, each = columns[torch.from_numpy(present)], each.take(present)
    width = int(each.max(initial=0))
    slot = np.arange(len(sample)) + np.repeat(np.arange(len(columns)) * width - np.cumsum(each) + each, each)
    table = np.zeros(len(columns) * width, np.float32)
    table[slot] = bound
    bounds = torch.from_numpy(table).view(len(columns), width)
    found: Whole = _compared(columns, bounds).view(-1).numpy().take(slot)
    return found


def _compared(columns: Tensor, bounds: Tensor) -> Tensor:
    """Numbers below each bound, row by row: by comparing all of them, or by sorting and searching."""
    size = columns.shape[1]
    if COMPARE * bounds.numel() * size > SORT * columns.numel() + SEARCH * bounds.numel():
        return torch.searchsorted(_sorted(columns), bounds)
    step = max(1, CHUNK // max(1, size * bounds.shape[1]))
    flags = columns.new_empty(step, bounds.shape[1], size)
    found = torch.empty_like(bounds)
    for begin in range(0, len(columns), step):
        some = columns[begin : begin + step, None], bounds[begin : begin + step, :, None]
        torch.sum(torch.lt(*some, out=flags[: len(some[0])]), 2, out=found[begin : begin + step])
    return found


def _sorted(columns: Tensor) -> Tensor:
    """Sort a copy of each row; as whole numbers, which is faster, where none is negative."""
    rows = columns.numpy().copy()
    (rows.view(np.int32) if rows.min() >= 0 else rows).sort(axis=1)  # several times as fast as torch
    return torch.from_numpy(rows)


@cache
def boundaries(bins: Bins) -> Doubles:
    """The least exact products that round to float32 numbers at or above each inner edge."""
    edges = np.array(bins.thresholds, np.float32)
    with np.errstate(over="ignore", under="ignore"):
        before = np.nextafter(edges, np.float32(-np.inf)).astype(np.float64)
        halfway = np.where(np.isinf(edges), OVERFLOW, (edges.astype(np.float64) + before) / 2)
        even = edges.view(np.int32) % 2 == 0  # a tie goes to the even one of two neighbours
        found: Doubles = np.where(even | np.isinf(edges), halfway, np.nextafter(halfway, np.inf))
    return found
