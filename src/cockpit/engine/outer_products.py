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
from cockpit.engine.binning import Bins
from cockpit.layers.forms import Scratch

Floats = NDArray[np.float32]

BLOCK = 2**16  # products that are formed at once
TINY = 2.0**-74  # two larger numbers have a product that does not underflow
UNDERFLOW = 2.0**-149  # a smaller product may round to zero, whose sign does not count
# Seconds for each product, for each of them and edge, and for each edge: only proportions matter.
FORM_EACH, FORM_EDGE, FORM_CALL = 0.25e-9, 0.13e-9, 3e-6


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
    """The factors row [N, O], its factor included, and col [N, I].

    What is done with every number is done by numpy: at these sizes waking torch's threads takes longer.
    """

    def __init__(self, row: Tensor, col: Tensor) -> None:
        self.row, self.col, self.scratch = row.contiguous(), col.contiguous(), Scratch()
        self._row: Floats = self.row.numpy()
        self._col: Floats = self.col.numpy()

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
    def _ends(self) -> tuple[float, float]:
        """Smallest and largest row_no; NaN if there is one."""
        return (float(self._row.min()), float(self._row.max())) if self._row.size else (0.0, 0.0)

    @cached_property
    def _lows(self) -> Floats:
        """Smallest col_ni of each sample, and at most zero, [N]."""
        return _end(self._col, np.minimum)

    @cached_property
    def _tops(self) -> Floats:
        """Largest |col_ni| of each sample, [N]."""
        return np.maximum(_end(self._col, np.maximum), -self._lows)

    @cached_property
    def _top(self) -> float:
        return float(self._tops.max(initial=0.0))

    @cached_property
    def simple(self) -> bool:
        """Whether products are of single precision and finite."""
        infinity = float("inf")  # all comparisons with NaN fail
        return self.row.dtype == torch.float32 and self._top < infinity and -infinity < sum(self._ends) < infinity

    @cached_property
    def signed(self) -> bool:
        """Whether some col_ni are negative."""
        return bool((self._lows < 0).any())

    def small(self, bins: Bins) -> Small:
        """Find the small rows."""
        radius = bins.near_zero[0]
        large: NDArray[np.bool_] | None = None
        if max(-self._ends[0], self._ends[1]) * self._top >= radius:
            large = self.highest >= radius
        if (large is None or not large.all()) and self._underflowing is not None:
            large = self._underflowing if large is None else large | self._underflowing
        return Small(self._row.shape, np.zeros(0, np.int64) if large is None else np.flatnonzero(large))

    @cached_property
    def _underflowing(self) -> NDArray[np.bool_] | None:
        """Rows of which some product may round to zero though no factor is zero, [N, O]; None if there is none.

        Only where a negative product may: a positive one is in the bin of zero anyway.
        """
        pairs = [(self._row < -TINY, self._down), (self._col > TINY, self._right)]
        if self.signed:
            pairs += [(self._row > TINY, self._up), (self._col < -TINY, self._left)]
        if all(np.count_nonzero(away) == counts.sum() for away, counts in pairs):
            return None
        columns = np.abs(self._col)
        least = float(columns.min(where=columns > 0, initial=1.0))  # nothing underflows with one
        return (self._sizes.astype(np.float64) * least < UNDERFLOW) & (self._sizes > 0)

    @cached_property
    def _sizes(self) -> Floats:
        return np.abs(self._row)

    @cached_property
    def highest(self) -> Floats:
        """Largest product of each row, apart from the sign, [N, O]."""
        with np.errstate(over="ignore", under="ignore"):
            return self._sizes * self._tops[:, None]

    # ---- signs

    def negative(self, small: Small) -> int:
        """Number of negative products of small rows: of all rows, less those of the others."""
        if not small.total:
            return 0
        found = self._down @ self._right + (self._up @ self._left if self.signed else 0)
        if len(small.rest):
            left, sample = self._row.reshape(-1).take(small.rest), small.rest // self._row.shape[1]
            found -= (left < 0) @ self._right.take(sample)
            if self.signed:
                found -= (left > 0) @ self._left.take(sample)
        return int(found)

    @cached_property
    def _down(self) -> NDArray[np.float64]:
        return _counted(self._row < 0)

    @cached_property
    def _up(self) -> NDArray[np.float64]:
        return _counted(self._row > 0)

    @cached_property
    def _left(self) -> NDArray[np.float64]:
        return _counted(self._col < 0)

    @cached_property
    def _right(self) -> NDArray[np.float64]:
        return _counted(self._col > 0)

    def flags(self, compare: Callable[..., Tensor], values: Tensor) -> Tensor:
        """1 where the comparison with zero holds, else 0; gone with the next call."""
        return compare(values, 0, out=self.scratch.take("signs", tuple(values.shape), values))

    # ---- the other rows

    def _rest(self, rows: NDArray[np.int64], bins: Bins) -> NDArray[np.int64]:
        """Histogram of the products of some rows (n, o)."""
        inverse, columns = bins.count / (bins.high - bins.low), self._col.shape[1]
        highest = self.highest.reshape(-1).take(rows)
        reached = np.minimum(highest.astype(np.float64) * inverse + 1, bins.count) * (2 if self.signed else 1)  # about
        edges, far = float(reached.sum()), float(reached.max())
        forming = columns * (FORM_EACH * len(rows) + FORM_EDGE * edges) + FORM_CALL * far
        if forming < row_products.seconds(edges, *self._col.shape):
            return self._formed_1d(rows, highest, bins)
        return row_products.count(rows, self._row, self._col, self._tops, self.signed, bins)

    def _formed_1d(self, rows: NDArray[np.int64], highest: Floats, bins: Bins) -> NDArray[np.int64]:
        """Form products in blocks that reach about equally far; compare each with the edges that it reaches."""
        left, sample = self._row.reshape(-1).take(rows), rows // self._row.shape[1]
        reach = highest if self.signed else np.copysign(highest, left)
        order, step = reach.argsort(), max(1, BLOCK // max(1, self._col.shape[1]))
        room = np.empty((min(step, len(rows)), self._col.shape[1]), np.float32)
        flags, above = np.empty(room.shape, np.bool_), np.zeros(bins.count + 1, np.int64)  # at or above a lower edge
        for begin in range(0, len(rows), step):
            some = order[begin : begin + step]
            g, found = room[: len(some)], flags[: len(some)]
            self._col.take(sample.take(some), axis=0, out=g, mode="clip")  # the fastest of its modes
            with np.errstate(over="ignore"):
                g *= left.take(some)[:, None]
            low, high = float(reach[some[0]]), float(reach[some[-1]])
            reached = bins.reached(*((-high, high) if self.signed else (min(low, 0.0), max(high, 0.0))))
            above[: reached.start + 1] += g.size
            for k in reached:
                above[k + 1] += np.count_nonzero(np.greater_equal(g, bins.thresholds[k], out=found))
        return above[:-1] - above[1:]

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
            left = torch.from_numpy(self._row.reshape(-1).take(places))
            yield room.mul_(left[:, None]), torch.from_numpy(places % outputs)


def _end(values: Floats, better: np.ufunc) -> Floats:
    """Smallest or largest number of each row, or zero if that is smaller or larger; NaN if there is one."""
    found: Floats = better.reduce(values, axis=1, initial=0.0)
    return found


def _counted(flags: NDArray[np.bool_]) -> NDArray[np.float64]:
    """How many flags of each row are set; in double precision, so that products are exact."""
    narrow = np.min_scalar_type(flags.shape[1])  # the fastest that holds the sum
    found: NDArray[np.float64] = np.add.reduce(flags.view(np.uint8), axis=1, dtype=narrow).astype(np.float64)
    return found
