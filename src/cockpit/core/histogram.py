"""Histograms as values: edges, and exact integer counts per parameter, kept sparse."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SparseCounts:
    """Counts of one parameter: only bins that are not empty (nearly all of a 2-D histogram is)."""

    shape: tuple[int, ...]
    bins: NDArray[np.int32]
    counts: Counts

    @classmethod
    def of(cls, dense: Counts) -> "SparseCounts":
        """Drop the empty bins of ``dense``."""
        flat = np.ascontiguousarray(dense, dtype=np.int64).reshape(-1)
        bins = np.flatnonzero(flat)
        return cls(dense.shape, bins.astype(np.int32), flat[bins])

    def dense(self) -> Counts:
        """Return the counts of all bins."""
        flat: Counts = np.zeros(int(np.prod(self.shape)), dtype=np.int64)
        flat[self.bins] = self.counts
        return flat.reshape(self.shape)


class Histogram:
    """A histogram over one or two axes, in total (``counts``) and per parameter (``parts``)."""

    __slots__ = ("_parts", "edges")

    def __init__(self, edges: tuple[NDArray[np.float64], ...], parts: Mapping[str, Counts]) -> None:
        self.edges = edges
        self._parts = {name: SparseCounts.of(counts) for name, counts in parts.items()}

    @property
    def parts(self) -> dict[str, Counts]:
        """Counts of each parameter."""
        return {name: part.dense() for name, part in self._parts.items()}

    @property
    def counts(self) -> Counts:
        """Counts of all parameters together."""
        empty: Counts = np.zeros(tuple(len(axis) - 1 for axis in self.edges), dtype=np.int64)
        return reduce(np.add, (part.dense() for part in self._parts.values()), empty)

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists: the form of the paper's JSON log."""
        edges = [axis.tolist() for axis in self.edges]
        return {"hist": self.counts.tolist(), "edges": edges[0] if len(edges) == 1 else edges}

    def __repr__(self) -> str:
        return f"Histogram({self.counts.sum()} elements, bins {self.counts.shape}, {len(self._parts)} parameters)"
