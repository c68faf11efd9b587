"""Histograms as values: edges, and exact integer counts per parameter, kept sparse."""

from collections.abc import Mapping
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


class Histogram:
    """A histogram over one or two axes, in total (``counts``) and per parameter (``parts``).

    Nearly all bins are empty, so only the others are kept, all parameters in one array.
    """

    __slots__ = ("_bins", "_counts", "_ends", "_names", "edges")

    def __init__(self, edges: tuple[NDArray[np.float64], ...], parts: Mapping[str, Counts]) -> None:
        self.edges = edges
        flat = [np.asarray(counts, dtype=np.int64).reshape(-1) for counts in parts.values()]
        filled = [np.flatnonzero(counts) for counts in flat]
        self._names = tuple(parts)
        self._ends = tuple(int(end) for end in np.cumsum([len(bins) for bins in filled]))
        self._bins = np.concatenate([*filled, np.empty(0, np.int64)]).astype(np.int32)
        counts = np.concatenate([*(c[bins] for c, bins in zip(flat, filled, strict=True)), np.empty(0, np.int64)])
        self._counts = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))

    @classmethod
    def from_rows(cls, edges: tuple[NDArray[np.float64], ...], names: tuple[str, ...], rows: NDArray[Any]) -> Self:
        """Build one from the counts of all parameters, one row for each."""
        flat = rows.reshape(-1)
        places = np.flatnonzero(flat)
        counts = flat[places]
        kind = np.min_scalar_type(int(counts.max(initial=0)))
        return cls.from_sparse(edges, names, places, counts.astype(kind))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins along each axis."""
        return tuple(len(axis) - 1 for axis in self.edges)

    @property
    def nbytes(self) -> int:
        """Bytes that the filled bins take in memory."""
        return self._bins.nbytes + self._counts.nbytes

    @property
    def parts(self) -> dict[str, Counts]:
        """Counts of each parameter."""
        begins = (0, *self._ends)
        return {
            name: self._dense(slice(begin, end))
            for name, begin, end in zip(self._names, begins, self._ends, strict=False)
        }

    @property
    def counts(self) -> Counts:
        """Counts of all parameters together."""
        return self._dense(slice(None))

    def sparse(self) -> tuple[tuple[str, ...], Counts, NDArray[Any]]:
        """Return the parameters' names, the filled bins as ``parameter * bins + bin``, increasing, and their counts."""
        part = np.searchsorted(np.array(self._ends, dtype=np.int64), np.arange(len(self._bins)), side="right")
        return self._names, part * int(np.prod(self.shape)) + self._bins, self._counts

    @classmethod
    def from_sparse(
        cls, edges: tuple[NDArray[np.float64], ...], names: tuple[str, ...], places: Counts, counts: NDArray[Any]
    ) -> Self:
        """Build one from what :meth:`sparse` gave."""
        histogram = cls.__new__(cls)
        histogram.edges, histogram._names = edges, names
        size = max(1, prod(histogram.shape))
        part, bins = np.divmod(places, size)
        histogram._ends = tuple(np.searchsorted(part, np.arange(len(names)), side="right").tolist())
        histogram._bins, histogram._counts = bins.astype(np.int32), counts
        return histogram

    def _dense(self, part: slice) -> Counts:
        dense: Counts = np.zeros(int(np.prod(self.shape)), dtype=np.int64)
        np.add.at(dense, self._bins[part], self._counts[part].astype(np.int64))
        return dense.reshape(self.shape)

    def as_dict(self) -> dict[str, Any]:
        """Return plain lists: the form of the paper's JSON log."""
        edges = [axis.tolist() for axis in self.edges]
        return {"hist": self.counts.tolist(), "edges": edges[0] if len(edges) == 1 else edges}

    def __eq__(self, other: object) -> bool:
        """Same edges, same parameters, same counts."""
        if not isinstance(other, Histogram):
            return NotImplemented
        return (
            len(self.edges) == len(other.edges)
            and all(np.array_equal(one, two) for one, two in zip(self.edges, other.edges, strict=True))
            and (self._names, self._ends) == (other._names, other._ends)
            and np.array_equal(self._bins, other._bins)
            and np.array_equal(self._counts, other._counts)
        )

    def __repr__(self) -> str:
        return f"Histogram({self.counts.sum()} elements, bins {self.counts.shape}, {len(self._names)} parameters)"
