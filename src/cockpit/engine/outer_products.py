"""Exact histograms of row_no * col_ni over n, o, i on a CPU, where few products are formed or none.

If |row_no| times the largest |col_ni| of the sample is below the first edges, signs decide the bins of all products of
this o, and are counted. For the other rows, see :mod:`row_products`; where they are few their products are formed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine import histograms, row_products
from cockpit.engine.statistics.bins import Bins
from cockpit.layers.forms import Scratch

BLOCK = 2**18  # products that are formed at once
TINY = 2.0**-74
UNDERFLOW = 2.0**-149  # a smaller product may round to zero, whose sign does not count
FORM_EACH, FORM_EDGE = 0.2e-9, 0.1e-9  # seconds for each product, and each of them and edge: only proportions matter


@dataclass(frozen=True)
class Small:
    """Rows (n, o) of [N, O] whose products are all so small that signs decide their bins; ``rest``: all others."""

    shape: tuple[int, ...]
    rest: NDArray[np.int64]  # ascending

    @property
    def total(self) -> int:
        """Number of small rows."""
        return prod(self.shape) - len(self.rest)

    def masked(self, row: Tensor) -> Tensor:
        """Set all other rows to zero."""
        if not len(self.rest):
            return row
        kept = row.clone()
        kept.view(-1)[torch.from_numpy(self.rest)] = 0
        return kept

    def samples(self) -> NDArray[np.float32]:
        """Number of samples of which the row of an output is small, [O]."""
        others = np.bincount(self.rest % self.shape[1], minlength=self.shape[1])
        return (self.shape[0] - others).astype(np.float32)


class Products:
    """The factors row [N, O], its factor included, and col [N, I]."""

    def __init__(self, row: Tensor, col: Tensor) -> None:
        self.row, self.col, self.scratch = row.contiguous(), col.contiguous(), Scratch()

    def histogram(self, bins: Bins) -> Tensor:
        """Histogram of all products: [bins]."""
        if not self.simple:
            return torch.from_numpy(self._each_1d(self.all_rows, bins))
        small = self.small(bins)
        _, below, zero = bins.near_zero
        negative = self.negative(small) if below != zero else 0
        counts = np.zeros(bins.count, np.int64)
        counts[below] += negative
        counts[zero] += small.total * self.col.shape[1] - negative
        if len(small.rest):
            counts += self._rest(small.rest, bins)
        return torch.from_numpy(counts)

    # ---- which rows are small

    @cached_property
    def _ranges(self) -> tuple[float, float, float, float]:
        return *histograms.extremes(self.row), *histograms.extremes(self.col)

    @property
    def simple(self) -> bool:
        """Whether products are of single precision and finite."""
        return self.row.dtype == torch.float32 and all(abs(end) < float("inf") for end in self._ranges)  # no NaN

    @property
    def signed(self) -> bool:
        """Whether some col_ni are negative."""
        return self._ranges[2] < 0

    def small(self, bins: Bins) -> Small:
        """Find the small rows."""
        radius = bins.near_zero[0]
        low, high, left, right = self._ranges
        large: NDArray[np.bool_] | None = None
        if max(-low, high) * max(-left, right) >= radius:
            large = self.highest >= radius
        if self._underflowing is not None:
            large = self._underflowing if large is None else large | self._underflowing
        return Small(tuple(self.row.shape), np.zeros(0, np.int64) if large is None else np.flatnonzero(large))

    @cached_property
    def _underflowing(self) -> NDArray[np.bool_] | None:
        """Rows of which some product may round to zero though no factor is zero, [N, O]; None if there is none."""
        columns = self._column_sizes.numpy()
        if not (_tiny(columns, self._ranges[2]) or _tiny(self._sizes, self._ranges[0])):
            return None
        least = float(columns.min(where=columns > 0, initial=1.0))  # nothing underflows with one
        return (self._sizes.astype(np.float64) * least < UNDERFLOW) & (self._sizes > 0)

    @cached_property
    def _sizes(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = np.abs(self.row.numpy())
        return found

    @cached_property
    def _column_sizes(self) -> Tensor:
        return self.col.abs() if self.signed else self.col

    @cached_property
    def _tops(self) -> NDArray[np.float32]:
        """Largest |col_ni| of each sample, [N, 1]."""
        found: NDArray[np.float32] = self._column_sizes.amax(1, keepdim=True).numpy()
        return found

    @cached_property
    def highest(self) -> NDArray[np.float32]:
        """Largest product of each row, apart from the sign, [N, O]."""
        with np.errstate(over="ignore", under="ignore"):
            return self._sizes * self._tops

    # ---- signs

    def negative(self, small: Small) -> int:
        """Number of negative products of small rows: of all rows, less those of the others."""
        if not small.total:
            return 0
        found = self._down @ self._right + (self._up @ self._left if self.signed else 0)
        if len(small.rest):
            left, sample = self.row.numpy().reshape(-1).take(small.rest), small.rest // self.row.shape[1]
            found -= (left < 0) @ self._right.take(sample)
            if self.signed:
                found -= (left > 0) @ self._left.take(sample)
        return int(found)

    @cached_property
    def _down(self) -> NDArray[np.float64]:
        return self._counted(torch.lt, self.row)

    @cached_property
    def _up(self) -> NDArray[np.float64]:
        return self._counted(torch.gt, self.row)

    @cached_property
    def _left(self) -> NDArray[np.float64]:
        return self._counted(torch.lt, self.col)

    @cached_property
    def _right(self) -> NDArray[np.float64]:
        return self._counted(torch.gt, self.col)

    def _counted(self, compare: Callable[..., Tensor], values: Tensor) -> NDArray[np.float64]:
        """How many numbers of each sample compare with zero; in double precision, so that products are exact."""
        found: NDArray[np.float64] = self.flags(compare, values).sum(1).numpy().astype(np.float64)
        return found

    def flags(self, compare: Callable[..., Tensor], values: Tensor) -> Tensor:
        """1 where the comparison with zero holds, else 0; gone with the next call."""
        return compare(values, 0, out=self.scratch.take("signs", tuple(values.shape), values))

    # ---- the other rows

    def _rest(self, rows: NDArray[np.int64], bins: Bins) -> NDArray[np.int64]:
        """Histogram of the products of some rows (n, o)."""
        inverse, columns = bins.count / (bins.high - bins.low), self.col.shape[1]
        highest = self.highest.reshape(-1).take(rows).astype(np.float64)
        edges = float(np.minimum(highest * inverse, bins.count).sum()) + len(rows)  # that are reached, about
        far = min(bins.count, float(highest.max()) * inverse * (2 if self.signed else 1)) + 2
        if (FORM_EACH + FORM_EDGE * far) * len(rows) * columns < row_products.seconds(edges, *self.col.shape):
            return self._each_1d(rows, bins)
        return row_products.count(rows, self.row.numpy(), self.col, self._tops[:, 0], self.signed, bins)

    @property
    def all_rows(self) -> NDArray[np.int64]:
        """Places of all rows."""
        return np.arange(self.row.numel())

    def _each_1d(self, rows: NDArray[np.int64], bins: Bins) -> NDArray[np.int64]:
        counts = np.zeros(bins.count, np.int64)
        for g, _ in self.formed(rows):
            counts += histograms.count(g, bins, histograms.extremes(g), self.scratch)
        return counts

    def formed(self, rows: NDArray[np.int64], limit: int = BLOCK) -> Iterator[tuple[Tensor, Tensor]]:
        """The products of some rows (n, o), [rows, I], and the o of each, a few at a time."""
        step, outputs = max(1, limit // max(1, self.col.shape[1])), self.row.shape[1]
        for begin in range(0, len(rows), step):
            places = rows[begin : begin + step]
            room = self.scratch.take("products", (len(places), self.col.shape[1]), self.col)
            torch.index_select(self.col, 0, torch.from_numpy(places // outputs), out=room)
            left = torch.from_numpy(self.row.numpy().reshape(-1).take(places))
            yield room.mul_(left[:, None]), torch.from_numpy(places % outputs)


def _tiny(sizes: NDArray[np.float32], lowest: float) -> bool:
    """Whether a number that is not zero is so small that its product with another such number underflows."""
    if lowest > TINY:
        return False
    return bool(np.count_nonzero(sizes <= TINY) > np.count_nonzero(sizes == 0))
