"""One definition of bins for every path, so that counts are equal whichever way they are counted.

Bin ``k`` holds edges[k] <= x < edges[k + 1]; the outermost bins also hold everything beyond.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.core.errors import CockpitError


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
        """The ``count + 1`` edges."""
        return np.linspace(self.low, self.high, self.count + 1)

    def index(self, values: Tensor) -> Tensor:
        """Return the bin of each value, compared with the edges in double precision."""
        inner = torch.from_numpy(self.edges[1:-1]).to(values.device)
        return torch.bucketize(values.double(), inner, right=True)

    @cached_property
    def near_zero(self) -> tuple[float, int, int]:
        """(radius, bin just below zero, bin of zero): inside the radius the sign alone decides the bin."""
        inner = self.edges[1:-1]
        edges = inner[np.abs(inner) > 1e-12 * (self.high - self.low)]
        radius = 0.999 * float(np.abs(edges).min()) if len(edges) else float("inf")
        if len(inner) - len(edges):  # an edge at zero, up to rounding
            zero = int(np.abs(inner).argmin())
            return radius, zero, zero + 1
        zero = int(np.searchsorted(inner, 0.0, side="right"))
        return radius, zero, zero
