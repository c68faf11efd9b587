"""Largest eigenvalue of a symmetric operator by the Lanczos method with full reorthogonalisation and thick restarts.

The basis never has more than a few vectors: when it is full it is replaced by its best approximations of the largest
eigenvectors, which continue the same Krylov space (Wu and Simon 2000).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import native
from cockpit.engine.numbers import Harbour, Manifest, Parcel
from cockpit.engine.vectors import square_norm

Matrix = NDArray[np.float64]

FEWER, MOST = 8, 12  # vectors of the basis, of long ones fewer: they take memory, and hardly save products
LONG = 2**18  # numbers of a long one
KEPT = 4  # vectors that stay when the basis is full
CHUNK = 2**16  # elements of each vector that are handled at once on a CPU: they stay in its cache
FLAT = 1e-7  # an eigenvalue so small beside the others is not resolved any further
REST = 0.1  # of an image, beside its parts along the newest vectors, of which rounding errors are no large part
NOISE = 1e-3  # of the longest image: of what is shorter, rounding errors are a large part
EXACT = 1e-5  # of an image: what it may have along vectors that a symmetric product keeps it orthogonal to
CLOSED = 1e-6  # of the operator: what is left of an image is rounding errors (in double precision: 1e-12)
LEAST = 8  # products, however soon the residual is small
AHEAD = {"cuda": 2}  # products after these whose numbers are looked at together: a look takes the host some time
SMALL = 0.02  # residual, in tolerances: at 0.1 one of 6,445 searches was off, by 0.3 % (benchmarks/eigenvalues.py)
MIXTURE = (1 / 3, 1 / 2, 1.0)  # weights of the largest eigenvectors in the next start


@dataclass(frozen=True, slots=True)
class Eigenpair:
    """The algebraically largest eigenvalue, and what it took."""

    value: float
    vector: Tensor  # unit vector to start from for a similar operator: the largest eigenvectors, mixed
    products: int
    residual: float  # ||H v - value v|| of its eigenvector: bounds the distance to the nearest eigenvalue


class Basis:
    """Orthonormal vectors, the rows of one matrix; each but the newest has been multiplied."""

    outside = -float("inf")  # the eigenvalue of directions that no vector can have

    def __init__(self, product: Callable[[Tensor], Tensor], start: Tensor) -> None:
        self._product = product
        self.most = most(start)  # vectors that have been multiplied; the newest is one more
        self._room, self.size = start.new_empty(self.most + 1, start.numel()), 0
        self._image: Tensor | None = None  # of the newest vector
        self._owed = True  # whether errors of the newest along all but its neighbours were left, or are not known
        self._exact = True  # whether they are rounding errors of single precision
        self._longest = 0.0  # of all images
        self._append(start, float(_length(start)))

    @property
    def last(self) -> Tensor:
        """The newest vector."""
        return self._room[self.size - 1]

    def multiply(self) -> None:
        """Begin the product of the newest vector, if nobody has."""
        if self._image is None:
            self._image = self._product(self.last)

    def settle(self, newest: int) -> Tensor:
        """Make the image orthogonal to the basis: as a unit vector it is the next.

        Returns its parts along the basis and, in the last place, the length of what was left. More than rounding errors
        it has only along the ``newest`` vectors.
        """
        image, self._image = self._image, None
        assert image is not None
        found = self._orthogonalise(image, newest)
        self._append(image, found[-1])
        return found

    def offer(self, image: Tensor) -> None:
        """Take this for the image of the newest vector."""
        self._image = image

    def shrink(self, size: int) -> None:
        """Forget all vectors but the first ones, and what was begun."""
        self.size, self._image = size, None

    def restart(self, coefficients: Matrix) -> None:
        """Keep sum_i c_ij q_i for the columns j of [size - 1, kept] instead, and the newest."""
        mix, old = self._told(coefficients.T), self._room[: self.size - 1]
        if native.usable(old):
            native.mix_rows(old, mix)
        else:
            for piece in old.split(CHUNK, 1) if old.device.type == "cpu" else [old]:
                piece[: len(mix)] = mix @ piece
        self._room[len(mix)] = self.last
        self.size = len(mix) + 1

    def combine(self, coefficients: Matrix) -> Tensor:
        """sum_i c_i q_i over the first vectors."""
        return self._told(coefficients) @ self._room[: len(coefficients)]

    def _append(self, vector: Tensor, length: float | Tensor) -> None:
        torch.div(vector, length, out=self._room[self.size])
        self.size += 1

    def _orthogonalise(self, image: Tensor, newest: int) -> Tensor:
        """In place; along the newest vectors first, or the rounding errors along the others would grow."""
        rows = self._room[: self.size]
        if image.is_contiguous() and native.usable(image):
            return self._by_loops(rows, image, newest)
        parts = _products(rows[-newest:], image)
        _subtract(image, rows[-newest:], parts)
        errors = _products(rows, image)
        _subtract(image, rows, errors)
        errors[-newest:] += parts
        return torch.cat([errors, _length(image)[None]])

    def _by_loops(self, rows: Tensor, image: Tensor, newest: int) -> Tensor:
        """Errors stay small if every other vector has none, no image leaves little, and products are exact."""
        found = None
        if self._exact and newest < len(rows) and not self._owed:
            found = native.orthogonalise(rows, image, newest, near=True)
            if found[-1] > max(REST * float(found[:-1].norm()), NOISE * self._longest):
                self._owed = True
                return found
        every, self._owed = native.orthogonalise(rows, image, newest), False
        self._longest = max(self._longest, float(every.norm()))
        if found is not None:
            every[:-1] += found[:-1]
        elif newest < len(rows):
            self._exact = bool(every[: -newest - 1].abs().max() <= EXACT * every.norm())
        return every

    def _told(self, coefficients: Matrix) -> Tensor:
        """To the device, which goes on with what it is doing."""
        return torch.from_numpy(coefficients).to(self._room.dtype).to(self._room.device, non_blocking=True)


def most(vector: Tensor) -> int:
    """Vectors of a basis."""
    return min(FEWER if vector.numel() > LONG else MOST, vector.numel())


def _products(rows: Tensor, vector: Tensor) -> Tensor:
    """<q_i, v>; on a CPU one sum of millions of terms would lose four digits."""
    if vector.device.type != "cpu" or vector.numel() <= CHUNK:
        return rows @ vector
    pieces = zip(rows.split(CHUNK, 1), vector.split(CHUNK), strict=True)
    return torch.stack([row @ piece for row, piece in pieces]).double().sum(0)


def _subtract(vector: Tensor, rows: Tensor, parts: Tensor) -> None:
    """sum_i c_i q_i, in place."""
    vector.addmv_(rows.mT, parts.to(vector), alpha=-1)


class Projection:
    """The operator in the basis, and its eigenvalues there."""

    def __init__(self) -> None:
        self.matrix = np.zeros((0, 0))

    def add(self, along: list[float], asymmetry: float, coupling: float | None) -> None:
        """The image of the newest vector; ``coupling``: its part along the one before, as that one's image had it."""
        size = len(along)
        grown = np.zeros((size, size))
        grown[:-1, :-1] = self.matrix
        grown[-1] = grown[:, -1] = along
        if coupling is not None:
            if abs(along[-2] - coupling) > asymmetry * float(abs(grown).max()):
                raise Undefined("second derivatives are not symmetric: an operation's own double backward is wrong")
            grown[-1, -2] = grown[-2, -1] = coupling
        self.matrix = grown

    @property
    def scale(self) -> float:
        """Its largest element."""
        return float(abs(self.matrix).max())

    def solve(self) -> tuple[Matrix, Matrix]:
        """Eigenvalues and eigenvectors."""
        values, vectors = np.linalg.eigh(self.matrix)
        return values, vectors


def room(parameters: Mapping[str, Tensor]) -> int:
    """Bytes that a search holds in a CPU's memory."""
    return FEWER * sum(p.nbytes for p in parameters.values() if p.device.type == "cpu")


def largest(
    basis: Basis, generator: torch.Generator, tolerance: float = 1e-3, limit: int = 150, asymmetry: float = 1e-2
) -> Eigenpair:
    """Run Lanczos from the one vector of a basis until the eigenvalue is right to ``tolerance``, relatively.

    The value itself stands much earlier, but may be the second largest: how small its residual can become before the
    largest shows depends on how little of that eigenvector the start had. So the residual must fall far below the
    tolerance. A good start is :attr:`Eigenpair.vector` of a similar operator: it has a large part of each of the
    largest, so none is passed over where they changed places. The caller mixes in noise: a start inside an invariant
    subspace would never look elsewhere.
    """
    search = _Search(basis, generator, tolerance, limit, asymmetry)
    while (found := search.advance()) is None:
        pass
    return found


class _Search:
    """A basis that grows until its best approximation of the largest eigenvector is good enough."""

    def __init__(
        self, basis: Basis, generator: torch.Generator, tolerance: float, limit: int, asymmetry: float
    ) -> None:
        self._basis, self._generator = basis, generator
        self._tolerance, self._limit, self._asymmetry = tolerance, limit, asymmetry
        self._inside, self._size = Projection(), basis.last.numel()
        self._ahead, self._least = AHEAD.get(basis.last.device.type, 1), min(self._size, LEAST)
        self._products, self._closed = 0, CLOSED**2 if basis.last.dtype == torch.float64 else CLOSED
        self._coupling: float | None = None  # of the last two vectors; None: the last is coupled to all others

    def advance(self) -> Eigenpair | None:
        """Take some products and look at them; None: go on."""
        basis, together = self._basis, self._ahead > 1
        free, soon = basis.most - basis.size + 1, max(self._ahead, self._least - self._products) if together else 1
        numbers = _take(basis, min(free, soon), self._coupling is None, together)
        self._products += len(numbers)
        beta, closed = self._add(numbers)
        if not beta < float("inf"):
            return Eigenpair(float("nan"), basis.last, self._products, float("nan"))
        values, vectors = self._inside.solve()
        residual = beta * abs(float(vectors[-1, -1]))
        if self._done(values, residual):
            value = max(float(values[-1]), basis.outside)
            return Eigenpair(value, basis.combine(_mixed(vectors)), self._products, residual)
        if closed:
            self._elsewhere(len(values))
        if len(values) >= basis.most:
            basis.restart(vectors[:, -KEPT:])
            self._inside.matrix, self._coupling = np.diag(values[-KEPT:]), None
        return None

    def _add(self, numbers: Sequence[tuple[list[float], float]]) -> tuple[float, bool]:
        """What is left of the last image, and whether that is nothing: the basis spans an invariant subspace."""
        beta, closed = 0.0, False
        for along, beta in numbers:
            if not beta < float("inf"):
                break
            self._inside.add(along, self._asymmetry, self._coupling)
            self._coupling = beta
            closed = beta <= self._closed * max(1e-30, self._inside.scale)
            if closed:
                break
        return beta, closed

    def _done(self, values: Matrix, residual: float) -> bool:
        value, widest = float(values[-1]), float(abs(values).max())
        small = residual <= SMALL * self._tolerance * max(abs(value), FLAT * widest)
        enough = len(values) >= self._size or self._products >= self._limit
        return enough or (small and self._products >= self._least)

    def _elsewhere(self, size: int) -> None:
        """Look outside an invariant subspace, and carefully: there may be more of them."""
        self._ahead, self._coupling = 1, 0.0
        self._basis.shrink(size)  # what was made beyond was made too soon
        noise = torch.randn(self._size, generator=self._generator, dtype=torch.float64, device=self._generator.device)
        self._basis.offer(noise.to(self._basis.last))
        self._basis.settle(size)


def _take(basis: Basis, count: int, fresh: bool, onward: bool) -> list[tuple[list[float], float]]:
    """So many products: parts along the basis, and the length of what is left, for each.

    ``fresh``: the newest vector is coupled to all others. ``onward``: another product is begun before numbers are
    looked at, so that the device does not stand idle.
    """
    found, sizes = list[Tensor](), range(basis.size, basis.size + count)
    for size in sizes:
        basis.multiply()
        found.append(basis.settle(size if fresh else min(size, 2)))
        fresh = False
    numbers = _sent(found)
    if onward:
        basis.multiply()
    return _look(found, sizes, numbers)


_harbour = Harbour()


def _sent(found: Sequence[Tensor]) -> Parcel:
    """Numbers on their way: what the device is told from here on need not be done before they are read."""
    return Parcel(torch.cat(list(found)).double(), Manifest({}), _harbour)


def _look(found: Sequence[Tensor], sizes: Sequence[int], sent: Parcel) -> list[tuple[list[float], float]]:
    """The only look at numbers."""
    numbers, begin, seen = sent.read().tolist(), 0, list[tuple[list[float], float]]()
    for one, size in zip(found, sizes, strict=True):
        end = begin + len(one)
        seen.append((numbers[begin : begin + size], numbers[end - 1]))
        begin = end
    return seen


def _mixed(vectors: Matrix) -> Matrix:
    """Of the eigenvectors of the projection, the largest."""
    weights = np.array(MIXTURE[-vectors.shape[1] :])
    found: Matrix = vectors[:, -len(weights) :] @ (weights / np.linalg.norm(weights))
    return found


def _length(vector: Tensor) -> Tensor:
    """||v||; on a CPU one sum of millions of terms would lose four digits."""
    return square_norm(vector).sqrt() if vector.device.type == "cpu" else vector.norm()
