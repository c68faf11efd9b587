"""Exact histograms of numbers that are there, on a CPU mostly without looking up the bin of each.

Gradient elements are small: of a chunk, few edges lie between the smallest and the largest. How many elements are not
below such an edge is one comparison and one sum, both much faster than a look-up; differences of these numbers are the
counts.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine import native
from cockpit.engine.statistics.bins import Bins
from cockpit.layers.forms import Scratch

SEVERAL = 4  # edges from which on a compiled loop looks up pairs faster than elements are compared with each edge
MEDIUM = 2**17  # elements that one thread compares as fast as several do
EXACT = 2**24  # the sum of so many ones is exact in single precision
LANES = 64  # copies of the counts on a GPU, so that not all threads add to the same place
PIECE = 2**24  # elements looked up at once on a GPU

# Seconds on a core of 2023, for each call and each element: only their proportions matter.
PASS, PASS_EACH = 4e-6, 0.08e-9
SEARCH, SEARCH_EACH = 15e-6, 18e-9
GUESS, GUESS_EACH = 60e-6, 2.5e-9


def extremes(g: Tensor) -> tuple[float, float]:
    """Smallest and largest element; NaN if there is one."""
    if not g.numel():
        return 0.0, 0.0
    low, high = torch.aminmax(g)
    return float(low), float(high)


def count(g: Tensor, bins: Bins, within: tuple[float, float], scratch: Scratch) -> NDArray[np.int64]:
    """Histogram of all elements of ``g``, on a CPU, given its smallest and largest: [bins]."""
    reached, above = bins.reached(*within), g.numel()
    if not _few(len(reached), above, within):
        return torch.bincount(bins.index(g).reshape(-1), minlength=bins.count).numpy()
    counts = np.zeros(bins.count, np.int64)
    if reached:
        edges = _edges(bins, reached, g)
        for k, more in zip(reached, _at_or_above(g, edges, scratch), strict=True):
            counts[k], above = above - more, more
    counts[reached.stop] = above
    return counts


def _at_or_above(g: Tensor, edges: list[float], scratch: Scratch) -> Iterator[int]:
    """How many elements are at or above each edge: numpy is faster than one thread of torch, and begins sooner."""
    if g.numel() > MEDIUM and torch.get_num_threads() > 1:
        flags = scratch.take("flags", tuple(g.shape), g)
        yield from (total(torch.ge(g, edge, out=flags)) for edge in edges)
        return
    values = g.numpy()
    room = np.empty(values.shape, np.bool_)
    yield from (int(np.count_nonzero(np.greater_equal(values, edge, out=room))) for edge in edges)


def looked_up(g: Tensor, bins: Bins) -> Tensor:
    """Histogram of all elements of ``g`` on any device, without waiting for it: [bins]."""
    counts = torch.zeros(LANES, bins.count, dtype=torch.int64, device=g.device)
    for piece in g.reshape(-1).split(PIECE):
        _add(counts, bins.index(piece))
    return counts.sum(0)


def looked_up_2d(g: Tensor, theta: Tensor, bins: Bins, parameter_bins: Bins) -> Tensor:
    """Histogram of (g_nd, theta_d) for ``g`` [n, D] on any device, without waiting: [gradient, parameter bins]."""
    counts = torch.zeros(LANES, bins.count * parameter_bins.count, dtype=torch.int64, device=g.device)
    second = parameter_bins.index(theta.reshape(-1))
    for piece in g.split(max(1, PIECE // max(1, g.shape[1]))):
        _add(counts, (bins.index(piece) * parameter_bins.count + second).reshape(-1))
    return counts.sum(0).view(bins.count, parameter_bins.count)


class Axis:
    """The parameter axis of a joint histogram: a parameter and its bins."""

    def __init__(self, theta: Tensor, bins: Bins) -> None:
        self.theta, self.bins = theta, bins

    @cached_property
    def index(self) -> Tensor:
        """The bin of each element, of the parameter's shape."""
        return self.bins.index(self.theta)

    @cached_property
    def places(self) -> Tensor:
        """The same for compiled loops."""
        return self.index.reshape(-1).to(torch.int32)

    @cached_property
    def within(self) -> tuple[float, float]:
        """Smallest and largest element."""
        return extremes(self.theta)

    @cached_property
    def reached(self) -> range:
        """Inner edges between the smallest and the largest element."""
        return self.bins.reached(*self.within)

    @property
    def finite(self) -> bool:
        """Whether no element is NaN."""
        return self.within[0] == self.within[0] and self.within[1] == self.within[1]

    @cached_property
    def flags(self) -> list[Tensor]:
        """For each edge that is reached: 1 where the element is at or above it, else 0."""
        edges = _edges(self.bins, self.reached, self.theta)
        return [torch.ge(self.theta, edge, out=torch.empty_like(self.theta)) for edge in edges]

    @cached_property
    def counts(self) -> Tensor:
        """Elements of the parameter in each bin: float64 [bins]."""
        return torch.from_numpy(count(self.theta, self.bins, self.within, Scratch())).double()

    def spread(self, above: Sequence[float]) -> Tensor:
        """Turn numbers at or above each edge that is reached, the total first, into numbers in each bin."""
        sums = np.zeros(self.bins.count)
        sums[self.reached.start : self.reached.stop + 1] = -np.diff([*above, 0.0])
        return torch.from_numpy(sums)

    def weigh(self, weights: Tensor, scratch: Scratch) -> Tensor:
        """Sum whole numbers, one for each element of the parameter, by bin: float64 [bins]."""
        if not _few(3 * len(self.reached), self.theta.numel(), self.within):
            return torch.bincount(self.index.reshape(-1), weights.reshape(-1).double(), self.bins.count)
        flags = scratch.take("theta", tuple(self.theta.shape), self.theta)
        above = [float(weights.sum(dtype=torch.float64))]
        for edge in _edges(self.bins, self.reached, self.theta):
            torch.ge(self.theta, edge, out=flags)
            above.append(float(flags.mul_(weights).sum(dtype=torch.float64)))
        return self.spread(above)


class Joint:
    """Joint histogram of (g_nd, theta_d) over chunks of samples, on a CPU."""

    def __init__(self, axis: Axis, bins: Bins) -> None:
        self._axis, self._bins = axis, bins
        self._counts = torch.zeros(bins.count, axis.bins.count, dtype=torch.int64, device="cpu")
        self._all = np.zeros(bins.count + 1)  # samples of which every element is at or above the lower edge of a bin
        self._above: dict[int, Tensor] = {}  # samples at or above an inner edge, where not all or none are, [D]

    def add(self, g: Tensor, within: tuple[float, float], scratch: Scratch) -> None:
        """Count a chunk [n, D]."""
        bins, reached = self._bins, self._bins.reached(*within)
        quick = len(reached) > SEVERAL and native.usable(g)
        if quick or not _few(len(reached), g.numel(), within):
            self._looked_up(g)
            return
        self._all[: reached.start + 1] += len(g)
        flags = scratch.take("flags", tuple(g.shape), g)
        for k, edge in zip(reached, _edges(bins, reached, g), strict=True):
            found = torch.ge(g, edge, out=flags).sum(0)
            self._above[k] = found if k not in self._above else self._above[k].add_(found)

    def _looked_up(self, g: Tensor) -> None:
        axis, bins = self._axis, self._bins
        if native.usable(g):
            native.pair_counts(g, axis.places, axis.bins.count, bins, self._counts)
            return
        joint = bins.index(g) * axis.bins.count + axis.index.reshape(-1)
        self._counts.view(-1).add_(torch.bincount(joint.reshape(-1), minlength=self._counts.numel()))

    def counts(self, scratch: Scratch) -> Tensor:
        """Everything counted so far: [gradient bins, parameter bins]."""
        above = torch.zeros(self._bins.count + 1, self._axis.bins.count, dtype=torch.float64, device="cpu")
        above += torch.from_numpy(self._all)[:, None] * self._axis.counts
        for k, found in self._above.items():
            above[k + 1] += self._axis.weigh(found.view(self._axis.theta.shape), scratch)
        return self._counts + (above[:-1] - above[1:]).long()


def rows_1d(value: Tensor, elements: int, bins: Bins) -> Tensor:
    """Histogram of the rows that are not zero, and of all the zeros beside them."""
    if native.usable(value):
        counts = torch.zeros(bins.count, dtype=torch.int64, device="cpu")
        native.scan(value, [], None, None, (bins, counts))
    elif value.device.type == "cpu":
        counts = torch.from_numpy(count(value, bins, extremes(value), Scratch()))
    else:
        counts = looked_up(value, bins)
    counts[bins.near_zero[2]] += elements - value.numel()
    return counts


def rows_2d(value: Tensor, index: Tensor, samples: int, theta: Tensor, bins: Bins, parameter_bins: Bins) -> Tensor:
    """Histogram of (g, theta) where g_n has the rows ``value`` [M, E] at ``index`` and zeros elsewhere."""
    theta_bins = parameter_bins.index(theta)  # [V, E]
    joint = bins.index(value) * parameter_bins.count + theta_bins[index]
    lanes = torch.zeros(LANES, bins.count * parameter_bins.count, dtype=torch.int64, device=value.device)
    _add(lanes, joint.reshape(-1))
    counts = lanes.sum(0).view(bins.count, parameter_bins.count)
    visits = torch.zeros(theta.shape[0], dtype=torch.int64, device=value.device)
    visits.scatter_add_(0, index, torch.ones_like(index))
    zeros = (samples - visits)[:, None].expand_as(theta)
    counts[bins.near_zero[2]].index_add_(0, theta_bins.reshape(-1), zeros.reshape(-1))
    return counts


def _few(edges: int, size: int, within: tuple[float, float]) -> bool:
    """Whether comparing all elements with each edge is faster than looking up their bins."""
    if within[0] != within[0] or within[1] != within[1]:  # NaN is not below any edge
        return False
    return edges * (PASS + PASS_EACH * size) < min(SEARCH + SEARCH_EACH * size, GUESS + GUESS_EACH * size)


def total(flags: Tensor) -> int:
    """Number of ones among zeros, exact whatever the size."""
    return int(flags.sum() if flags.numel() <= EXACT else flags.sum(dtype=torch.float64))


def _edges(bins: Bins, reached: range, like: Tensor) -> list[float]:
    edges = bins.thresholds if like.dtype == torch.float32 else bins.inner
    return edges[reached.start : reached.stop]


def _add(counts: Tensor, index: Tensor) -> None:
    lanes = torch.arange(len(index), device=index.device).remainder_(LANES).mul_(counts.shape[1])
    counts.view(-1).scatter_add_(0, lanes.add_(index), torch.ones_like(index))
