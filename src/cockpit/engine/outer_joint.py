"""Exact joint histograms of (row_no * col_ni, theta_oi) on a CPU.

The products of small rows are counted by signs, with products of 0/1 matrices; the others are formed, in blocks that
reach about equally far, so that most blocks reach few edges.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine import histograms
from cockpit.engine.histograms import Axis
from cockpit.engine.outer_products import Products, Small
from cockpit.engine.statistics.bins import Bins

BLOCK = 2**17  # products that are formed at once
PLAIN = 2  # edges reached by the parameter up to which it is split into 0/1 matrices

# Seconds for each product: comparing with an edge, the same for one more edge of the parameter, looking up both bins.
COMPARE, BESIDE, LOOK_UP = 0.12e-9, 0.06e-9, 5e-9


def joint(products: Products, axis: Axis, bins: Bins) -> Tensor:
    """Histogram of all products with their parameters: [gradient bins, parameter bins]."""
    counts = torch.zeros(bins.count, axis.bins.count, dtype=torch.float64, device="cpu")
    rest = products.all_rows
    if products.simple:
        small = products.small(bins)
        rest = small.rest
        if small.total:
            _, below, zero = bins.near_zero
            counts[zero] += _samples(products, small, axis)
            if below != zero:
                negative = _negative(products, small, axis)
                counts[below] += negative
                counts[zero] -= negative
    if len(rest):
        _add_formed(counts, products, rest, axis, bins)
    return counts.long()


def _plain(axis: Axis) -> bool:
    return axis.finite and len(axis.reached) <= PLAIN


def _samples(products: Products, small: Small, axis: Axis) -> Tensor:
    """Number of small products beside the parameters of each bin."""
    if not len(small.rest):
        return axis.counts * float(len(products.row))
    samples = torch.from_numpy(small.samples())
    if not _plain(axis):
        return axis.weigh(samples[:, None].expand_as(axis.theta), products.scratch)
    above = [torch.dot(flags.sum(1).double(), samples.double()).item() for flags in axis.flags]
    return axis.spread([float(samples.sum(dtype=torch.float64)) * axis.theta.shape[1], *above])


def _negative(products: Products, small: Small, axis: Axis) -> Tensor:
    """Number of negative products beside the parameters of each bin."""
    row = small.masked(products.row)
    if not _plain(axis):
        return axis.weigh(_negative_by_element(products, row), products.scratch)
    above = [_negative_beside(products, row, flags) for flags in axis.flags]
    return axis.spread([products.negative(small), *above])


def _negative_beside(products: Products, row: Tensor, flags: Tensor) -> float:
    """Number of negative products beside the parameters that have a flag [O, I]."""
    down = torch.lt(row, 0, out=torch.empty_like(row))
    found = (products.flags(torch.gt, products.col) @ flags.mT).mul_(down).sum(dtype=torch.float64)
    if products.signed:
        up = torch.gt(row, 0, out=down)
        found += (products.flags(torch.lt, products.col) @ flags.mT).mul_(up).sum(dtype=torch.float64)
    return float(found)


def _negative_by_element(products: Products, row: Tensor) -> Tensor:
    """Number of samples with a negative product, [O, I]."""
    down = torch.lt(row, 0, out=torch.empty_like(row))
    found = down.mT @ products.flags(torch.gt, products.col)
    if products.signed:
        found.addmm_(torch.gt(row, 0, out=down).mT, products.flags(torch.lt, products.col))
    return found


def _add_formed(counts: Tensor, products: Products, rows: NDArray[np.int64], axis: Axis, bins: Bins) -> None:
    """Add the products of some rows (n, o)."""
    reach = np.copysign(products.highest, products.row.numpy()).reshape(-1).take(rows)
    rows = rows[reach.argsort()]
    for g, output in products.formed(rows, BLOCK):
        within = histograms.extremes(g)
        edges, beside = len(bins.reached(*within)), len(axis.reached)
        comparing = edges * (COMPARE + BESIDE * beside)
        if _plain(axis) and within[0] == within[0] and comparing < LOOK_UP and g.dtype == torch.float32:
            _add_compared(counts, g, output, axis, bins, within)
        else:
            both = bins.index(g).mul_(axis.bins.count).add_(axis.index[output])
            counts.view(-1).add_(torch.bincount(both.view(-1), minlength=counts.numel()))


def _add_compared(
    counts: Tensor, g: Tensor, output: Tensor, axis: Axis, bins: Bins, within: tuple[float, float]
) -> None:
    """Few edges are reached on both axes: count what is at or above each pair of them."""
    beside = [flags.index_select(0, output).view(-1) for flags in axis.flags]
    room, reached = torch.empty_like(g), bins.reached(*within)
    above = [axis.spread([g.numel(), *(float(flags.sum()) for flags in beside)])]
    for k in reached:
        flags = torch.ge(g, bins.thresholds[k], out=room)
        above.append(axis.spread([float(flags.sum()), *(float(torch.dot(flags.view(-1), one)) for one in beside)]))
    for k, (more, less) in enumerate(zip(above, [*above[1:], torch.zeros_like(above[0])], strict=True)):
        counts[reached.start + k] += more - less
