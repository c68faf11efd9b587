"""Histograms as values: edges, and exact integer counts per parameter, kept sparse."""

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


class Histogram:
    """A histogram over one or two axes, in total (``counts``) and per parameter (``parts``).

    Nearly all bins are empty, so only the rest is stored, in a single array for all parameters.
    """

    __slots__ = ("_counts", "_names", "_places", "edges")

    def __init__(self, edges: tuple[NDArray[np.float64], ...], parts: Mapping[str, Counts]) -> None:
        rows = [np.asarray(counts, dtype=np.int64).reshape(-1) for counts in parts.values()]
        flat = np.concatenate(rows) if rows else np.empty(0, np.int64)
        self._set(edges, tuple(parts), flat)

    @classmethod
    def from_rows(cls, edges: tuple[NDArray[np.float64], ...], names: tuple[str, ...], rows: NDArray[Any]) -> Self:
        """Return the histogram of counts with a row for each parameter."""
        histogram = cls.__new__(cls)
        histogram._set(edges, names, rows.reshape(-1))
        return histogram

    @classmethod
    def several(cls, edges: tuple[NDArray[np.float64], ...], names: tuple[str, ...], rows: NDArray[Any]) -> list[Self]:
        """Return a histogram for each row; a row holds the counts of all parameters in turn."""
        filled = (rows != 0).reshape(-1).nonzero()[0]
        first = np.arange(len(rows) + 1) * rows.shape[1]
        ends = np.searchsorted(filled, first)
        of = np.repeat(np.arange(len(rows)), ends[1:] - ends[:-1])
        places = filled - first[of]
        counts, places = rows[of, places], places.astype(np.int32)
        spans = list(pairwise(ends.tolist()))
        if not len(counts) or counts.max() < 2**8:
            narrow = counts.astype(np.uint8)
            parts = [narrow[begin:end] for begin, end in spans]
        else:
            parts = [_narrowed(counts[begin:end]) for begin, end in spans]
        return [
            cls.from_sparse(edges, names, places[begin:end], part)
            for (begin, end), part in zip(spans, parts, strict=True)
        ]

    def _set(self, edges: tuple[NDArray[np.float64], ...], names: tuple[str, ...], flat: NDArray[Any]) -> None:
        self.edges, self._names = edges, names
        filled = (flat != 0).nonzero()[0]  # of truth values: faster than of numbers
        counts: NDArray[Any] = flat[filled]
        self._places: NDArray[Any] = filled.astype(np.int32)  # parameter * bins + bin, increasing
        self._counts: NDArray[Any] = _narrowed(counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins along each axis."""
        return tuple(len(axis) - 1 for axis in self.edges)

    @property
    def nbytes(self) -> int:
        """Bytes that the filled bins take in memory."""
        return self._places.nbytes + self._counts.nbytes

    @property
    def parts(self) -> dict[str, Counts]:
        """Counts of each parameter."""
        dense: Counts = np.zeros(len(self._names) * prod(self.shape), dtype=np.int64)
        dense[self._places] = self._counts
        return dict(zip(self._names, dense.reshape(len(self._names), *self.shape), strict=True))

    @property
    def counts(self) -> Counts:
        """Counts of all parameters together."""
        dense: Counts = np.zeros(prod(self.shape), dtype=np.int64)
        np.add.at(dense, self._places % max(1, len(dense)), self._counts.astype(np.int64))
        return dense.reshape(self.shape)

    def sparse(self) -> tuple[tuple[str, ...], Counts, NDArray[Any]]:
        """Return the parameters' names, the filled bins as ``parameter * bins + bin``, increasing, and their counts."""
        return self._names, self._places, self._counts

    @classmethod
    def from_sparse(
        cls, edges: tuple[NDArray[np.float64], ...], names: tuple[str, ...], places: Counts, counts: NDArray[Any]
    ) -> Self:
        """Build one from what :meth:`sparse` gave."""
        histogram = cls.__new__(cls)
        histogram.edges, histogram._names, histogram._places, histogram._counts = edges, names, places, counts
        return histogram

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
            and self._names == other._names
            and np.array_equal(self._places, other._places)
            and np.array_equal(self._counts, other._counts)
        )

    def __repr__(self) -> str:
        return f"Histogram({self.counts.sum()} elements, bins {self.counts.shape}, {len(self._names)} parameters)"


def _narrowed(counts: NDArray[Any]) -> NDArray[Any]:
    return counts.astype(_narrowest(int(np.maximum.reduce(counts)) if len(counts) else 0))


def _narrowest(largest: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds a count."""
    if largest < 2**8:
        return np.uint8
    if largest < 2**16:
        return np.uint16
    return np.uint32 if largest < 2**32 else np.uint64
