"""Exact histograms of row_no * col_ni over n, o, i on a CPU, where nearly never a product is formed.

If |row_no| times the largest |col_ni| of the sample is below the first edges, signs decide the bins of all products of
this o, and are counted. How many products of the other rows reach an edge is seen from the columns alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine import histograms, row_products
from cockpit.engine.binning import Bins
from cockpit.layers.forms import CHUNK, Scratch

UNDERFLOW = 2.0**-149  # a smaller product may round to zero, whose sign does not count


@dataclass(frozen=True)
class Small:
    """Rows whose products are all so small that signs decide their bins."""

    flags: Tensor | None  # [N, O], 1 or 0; None: all of them
    total: int

    def masked(self, row: Tensor) -> Tensor:
        """Set all other rows to zero."""
        return row if self.flags is None else row * self.flags

    def rest(self) -> NDArray[np.int64]:
        """Places in [N, O] of all other rows."""
        if self.flags is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.flags.numpy().reshape(-1) == 0)


class Products:
    """The factors row [N, O], its factor included, and col [N, I]."""

    def __init__(self, row: Tensor, col: Tensor) -> None:
        self.row, self.col, self.scratch = row.contiguous(), col.contiguous(), Scratch()

    def histogram(self, bins: Bins) -> Tensor:
        """Histogram of all products: [bins]."""
        if not self._simple:
            return self._each_1d(bins)
        small, columns = self._small(bins), self.col.shape[1]
        _, below, zero = bins.near_zero
        negative = self._negative(small.masked(self.row)) if small.total and below != zero else 0
        counts = torch.zeros(bins.count, dtype=torch.int64)
        counts[below] += negative
        counts[zero] += small.total * columns - negative
        rest = small.rest()
        if len(rest):
            tops, signed = self._tops.view(-1).numpy(), not self._positive_columns
            counts += torch.from_numpy(row_products.count(rest, self.row.numpy(), self.col, tops, signed, bins))
        return counts

    def joint(self, axis: histograms.Axis, bins: Bins) -> Tensor:
        """Histogram of (row_no * col_ni, theta_oi): signs are counted by products of 0/1 matrices."""
        counts = torch.zeros(bins.count, axis.bins.count, dtype=torch.float64)
        if not self._simple:
            return self._each_2d(self._all_rows, axis, bins)
        small = self._small(bins)
        if small.total:
            _, below, zero = bins.near_zero
            counts[zero] += self._samples_by_bin(small, axis)
            if below != zero:
                negative = axis.weigh(self._negative_by_element(small.masked(self.row)), self.scratch)
                counts[below] += negative
                counts[zero] -= negative
        rest = small.rest()
        return counts.long() + self._each_2d(rest, axis, bins) if len(rest) else counts.long()

    def _samples_by_bin(self, small: Small, axis: histograms.Axis) -> Tensor:
        """Number of small products beside the parameters of each bin."""
        if small.flags is None:
            return axis.counts * float(len(self.row))
        return axis.weigh(small.flags.sum(0)[:, None].expand_as(axis.theta), self.scratch)

    # ---- which rows are small

    @cached_property
    def _ranges(self) -> tuple[float, float, float, float]:
        return *histograms.extremes(self.row), *histograms.extremes(self.col)

    @property
    def _simple(self) -> bool:
        return self.row.dtype == torch.float32 and all(abs(end) < float("inf") for end in self._ranges)  # no NaN

    @property
    def _positive_columns(self) -> bool:
        return self._ranges[2] >= 0

    def _small(self, bins: Bins) -> Small:
        radius = bins.near_zero[0]
        low, high, left, right = self._ranges
        flags, total = None, self.row.numel()
        if max(-low, high) * max(-left, right) >= radius:
            flags = torch.mul(self._sizes, self._tops, out=torch.empty_like(self.row)).lt_(radius)
            total = int(histograms.total(flags))
        if total and self._least_row * self._least_column < UNDERFLOW:
            kept = torch.ge(self._sizes, UNDERFLOW / self._least_column, out=torch.empty_like(self.row))
            kept.add_(torch.eq(self.row, 0, out=torch.empty_like(self.row)))
            flags = kept if flags is None else flags.mul_(kept)
            total = int(histograms.total(flags))
        return Small(flags, total)

    @cached_property
    def _sizes(self) -> Tensor:
        return self.row.abs()

    @cached_property
    def _column_sizes(self) -> Tensor:
        return self.col if self._positive_columns else self.col.abs()

    @cached_property
    def _tops(self) -> Tensor:
        """Largest |col_ni| of each sample, [N, 1]."""
        return self._column_sizes.amax(1, keepdim=True)

    @cached_property
    def _least_row(self) -> float:
        return self._ranges[0] if self._ranges[0] > 0 else self._least(self._sizes)

    @cached_property
    def _least_column(self) -> float:
        return self._ranges[2] if self._ranges[2] > 0 else self._least(self._column_sizes)

    def _least(self, sizes: Tensor) -> float:
        """Smallest number above zero; infinite if there is none."""
        room = self.scratch.take("signs", tuple(sizes.shape), sizes)
        return float(torch.threshold(sizes, 0.0, float("inf"), out=room).amin()) if sizes.numel() else float("inf")

    # ---- signs

    def _negative(self, row: Tensor) -> int:
        """Number of negative products."""
        found = torch.dot(self._signs(torch.lt, row), self._signs(torch.gt, self.col))
        if not self._positive_columns:
            found += torch.dot(self._signs(torch.gt, row), self._signs(torch.lt, self.col))
        return int(found)

    def _signs(self, compare: Callable[..., Tensor], values: Tensor) -> Tensor:
        """How many numbers of each row compare with zero: float64, so that products are exact."""
        return self._flags(compare, values).sum(1).double()

    def _negative_by_element(self, row: Tensor) -> Tensor:
        """Number of samples with a negative product, [O, I]."""
        down = torch.lt(row, 0, out=torch.empty_like(row))
        found = down.mT @ self._flags(torch.gt, self.col)
        if not self._positive_columns:
            found.addmm_(torch.gt(row, 0, out=down).mT, self._flags(torch.lt, self.col))
        return found

    def _flags(self, compare: Callable[..., Tensor], values: Tensor) -> Tensor:
        """1 where the comparison with zero holds, else 0; gone with the next call."""
        return compare(values, 0, out=self.scratch.take("signs", tuple(values.shape), values))

    # ---- formed products

    @property
    def _all_rows(self) -> NDArray[np.int64]:
        return np.arange(self.row.numel())

    def _each_1d(self, bins: Bins) -> Tensor:
        counts = torch.zeros(bins.count, dtype=torch.int64)
        for g, _ in self._formed(self._all_rows):
            counts += histograms.count(g, bins, histograms.extremes(g), self.scratch)
        return counts

    def _each_2d(self, rows: NDArray[np.int64], axis: histograms.Axis, bins: Bins) -> Tensor:
        counts = torch.zeros(bins.count, axis.bins.count, dtype=torch.int64)
        for g, output in self._formed(rows):
            joint = bins.index(g).mul_(axis.bins.count).add_(axis.index[output])
            counts += torch.bincount(joint.view(-1), minlength=counts.numel()).view_as(counts)
        return counts

    def _formed(self, rows: NDArray[np.int64]) -> Iterator[tuple[Tensor, Tensor]]:
        """The products of some rows (n, o), [rows, I], and the o of each, a few at a time."""
        step, outputs = max(1, CHUNK // max(1, self.col.shape[1])), self.row.shape[1]
        for places in torch.from_numpy(rows).split(step):
            room = self.scratch.take("products", (len(places), self.col.shape[1]), self.col)
            torch.index_select(self.col, 0, places // outputs, out=room)
            yield room.mul_(self.row.view(-1)[places, None]), places % outputs
