"""One definition of bins for every path, so that counts are equal whichever way they are counted.

Bin ``k`` holds edges[k] <= x < edges[k + 1]; the outermost bins also hold everything beyond. Edges are float64.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.core.errors import CockpitError

FEW = 2**14  # values for which a search among the edges is faster than a guess and its corrections


@dataclass(frozen=True)
class Bins:
    """``count`` equal bins on [low, high]."""

    count: int
    low: float
    high: float

    def __post_init__(self) -> None:
        if self.count < 1 or not self.low < self.high:
            raise CockpitError(f"{self.count} bins on ({self.low}, {self.high}): need at least 1 bin and low < high")

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """The ``count + 1`` edges; one that is zero up to rounding is zero, so that zeros lie above it."""
        edges = np.linspace(self.low, self.high, self.count + 1)
        inner = edges[1:-1]
        inner[np.abs(inner) <= 1e-12 * (self.high - self.low)] = 0.0
        return edges

    @cached_property
    def thresholds(self) -> list[float]:
        """The inner edges, rounded up to single precision: a float32 compares with both alike."""
        inner = self.edges[1:-1]
        with np.errstate(over="ignore", under="ignore"):
            rounded = inner.astype(np.float32)
            above = np.nextafter(rounded, np.float32(np.inf))
        return [float(x) for x in np.where(rounded < inner, above, rounded)]

    def reached(self, lowest: float, highest: float) -> range:
        """Which inner edges lie between two values: lowest < edge <= highest."""
        return range(bisect_right(self.inner, lowest), bisect_right(self.inner, highest))

    @cached_property
    def inner(self) -> list[float]:
        """The inner edges."""
        return [float(edge) for edge in self.edges[1:-1]]

    def index(self, values: Tensor) -> Tensor:
        """Return the bin of each value, as if compared with the edges in double precision."""
        if values.dtype == torch.float32 and values.device.type == "cpu" and values.numel() > FEW and self._guesses:
            return self._corrected(values)
        return self._searched(values)

    def _searched(self, values: Tensor) -> Tensor:
        values = values if values.dtype is torch.float64 else values.float()
        return torch.bucketize(values, edges_on(self, values.dtype, values.device), right=True, out_int32=True)

    @cached_property
    def _guesses(self) -> bool:
        """Whether dividing by the width in single precision finds the bin of all but a few values near edges."""
        return self.high - self.low > 1e-30 and max(-self.low, self.high) < 1e30 and self._verge < 0.02

    @cached_property
    def _verge(self) -> float:
        """Bound on the rounding of a guess, in bins; generous."""
        reach = max(abs(self.low), abs(self.high)) / (self.high - self.low)
        return 2.0**-21 * self.count * (1 + reach)

    def _corrected(self, values: Tensor) -> Tensor:
        """Guess by dividing, then search for the values on the verge of an edge."""
        flat, inverse = values.reshape(-1), self.count / (self.high - self.low)
        place = (flat * inverse).sub_(self.low * inverse)
        bins = place.floor().clamp_(0, self.count - 1).nan_to_num_(nan=self.count - 1).int()
        place.sub_(place.round()).abs_()
        near = torch.le(place, self._verge, out=place)
        if float(near.sum()):
            chosen = near.nonzero(as_tuple=True)[0]
            bins[chosen] = self._searched(flat[chosen])
        return bins.view(values.shape)

    @cached_property
    def near_zero(self) -> tuple[float, int, int]:
        """(radius, bin just below zero, bin of zero): inside the radius the sign alone decides the bin."""
        inner = self.edges[1:-1]
        edges = inner[inner != 0]
        radius = 0.999 * float(np.abs(edges).min()) if len(edges) else float("inf")
        zero = int(np.searchsorted(inner, 0.0, side="right"))
        return radius, zero - 1 if len(edges) < len(inner) else zero, zero


def tally(place: Tensor, count: int) -> Tensor:
    """How often each of 0, 1, ... count - 1 occurs; the host does not wait for a GPU."""
    if place.is_cuda:
        return torch.histc(place.int(), count, 0, count).long()
    return torch.bincount(place.reshape(-1), minlength=count)


@cache
def edges_on(bins: Bins, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The inner edges in the precision of the values that are compared with them."""
    edges = bins.thresholds if dtype is torch.float32 else bins.inner
    return torch.tensor(edges, dtype=dtype, device="cpu").to(device)
