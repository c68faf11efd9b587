"""Largest eigenvalue of a symmetric operator by the Lanczos method with full reorthogonalisation and thick restarts.

The basis never has more than a few vectors: when it is full it is replaced by its best approximations of the largest
eigenvectors, which continue the same Krylov space (Wu and Simon 2000).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.core.errors import Undefined

Matrix = NDArray[np.float64]
Operator = Callable[[Tensor], Tensor]

FEWER, MOST = 8, 12  # vectors of the basis, of long ones fewer: they take memory, and hardly save products
LONG = 2**18  # numbers of a long one
KEPT = 4  # vectors that stay when the basis is full
CHUNK = 2**16  # numbers that are summed in single precision: sums of millions would lose four digits on a CPU
FLAT = 1e-7  # an eigenvalue so small beside the others is not resolved any further
CLOSED = {torch.float64: 1e-12}  # of the operator: what is left of an image is rounding errors
CLOSED_ELSEWHERE = 1e-6
ASYMMETRY = 1e-2  # of the operator, that products may have
TOLERANCE = 1e-3  # of the eigenvalue, relatively
LIMIT = 150  # products
LEAST = 8  # products, however soon the residual is small
SMALL = 0.02  # residual, in tolerances: at 0.1 one of 6,445 searches was off, by 0.3%
MIXTURE = (1 / 3, 1 / 2, 1.0)  # weights of the largest eigenvectors in the next start
ROUNDING = (
    "the Hessian is lost in rounding errors: outputs or inputs are so large that second derivatives cancel; "
    "scale the inputs, or train in a wider precision"
)
WRONG = "second derivatives are not symmetric: an operation's own double backward is wrong"


@dataclass(frozen=True, slots=True)
class Eigenpair:
    """The algebraically largest eigenvalue, and what it took."""

    value: float
    vector: Tensor  # unit vector to start from for a similar operator: the largest eigenvectors, mixed
    products: int
    residual: float  # ||H v - value v|| of its eigenvector: bounds the distance to the nearest eigenvalue


def largest(operator: Operator, start: Tensor, generator: torch.Generator, asymmetry: float = ASYMMETRY) -> Eigenpair:
    """Run Lanczos from a start of any length until the eigenvalue is right to the tolerance, relatively.

    The value itself stands much earlier, but may be the second largest: how small its residual can become before the
    largest shows depends on how little of that eigenvector the start had. So the residual must fall far below the
    tolerance. A good start is :attr:`Eigenpair.vector` of a similar operator: it has a large part of each of the
    largest, so none is passed over where they changed places. The caller mixes in noise: a start inside an invariant
    subspace would never look elsewhere.
    """
    search = _Search(operator, start, generator, asymmetry)
    for products in range(1, LIMIT + 1):
        beta, closed = search.multiply()
        if not beta < float("inf"):
            raise Undefined("the Hessian is not finite")
        values, mixes = np.linalg.eigh(search.inside)
        residual = beta * abs(float(mixes[-1, -1]))
        small = residual <= SMALL * TOLERANCE * max(abs(float(values[-1])), FLAT * float(abs(values).max()))
        enough = len(values) >= start.numel() or products == LIMIT
        if enough or (small and products >= min(start.numel(), LEAST)):
            break
        if closed:
            search.look_elsewhere()
        search.make_room(values, mixes)
    return Eigenpair(float(values[-1]), search.combine(_mixed(mixes)), products, residual)


class _Search:
    """Orthonormal vectors, the rows of one matrix, and the operator in their space; the newest is not in it yet."""

    def __init__(self, operator: Operator, start: Tensor, generator: torch.Generator, asymmetry: float) -> None:
        self._operator, self._generator, self._asymmetry = operator, generator, asymmetry
        size = min(FEWER if start.numel() > LONG else MOST, start.numel())
        self._rows, self._size = start.new_empty(size + 1, start.numel()), 0
        self._coupling: float | None = None  # of the two newest vectors; None: the newest is coupled to all others
        self.inside: Matrix = np.zeros((0, 0))  # the operator in the space of the vectors that were multiplied
        self._append(start)

    def multiply(self) -> tuple[float, bool]:
        """Multiply the newest vector; what is left of its image is the next.

        Returns the length of what is left, and whether that is nothing: the basis spans an invariant subspace.
        """
        rows = self._rows[: self._size]
        image = self._operator(rows[-1])
        along = _orthogonalise(image, rows)
        beta = _length(image)
        if not beta < float("inf"):
            return beta, False
        self._grow(along)
        self._coupling = beta
        closed = CLOSED.get(image.dtype, CLOSED_ELSEWHERE) * max(1e-30, float(abs(self.inside).max()))
        self._append(image)
        return beta, beta <= closed

    def look_elsewhere(self) -> None:
        """Go on outside an invariant subspace: there may be more of them."""
        noise = torch.randn(
            self._rows.shape[1], generator=self._generator, dtype=torch.float64, device=self._generator.device
        ).to(self._rows)
        self._size -= 1  # the newest vector is made of rounding errors
        _orthogonalise(noise, self._rows[: self._size])
        self._append(noise)
        self._coupling = 0.0

    def make_room(self, values: Matrix, vectors: Matrix) -> None:
        """Where the basis is full, keep the best approximations of the largest eigenvectors, and the newest vector."""
        if self._size < len(self._rows):
            return
        kept = min(KEPT, len(values) // 2)
        mix = self._told(vectors[:, -kept:].T)
        for piece in self._rows.split(_piece(self._rows[0]), 1):
            piece[: len(mix)] = mix @ piece[: self._size - 1]
        self._rows[len(mix)] = self._rows[self._size - 1]
        self._size, self.inside, self._coupling = len(mix) + 1, np.diag(values[-kept:]), None

    def combine(self, coefficients: Matrix) -> Tensor:
        """sum_i c_i q_i over the vectors that were multiplied."""
        return self._told(coefficients) @ self._rows[: len(coefficients)]

    def _append(self, vector: Tensor) -> None:
        torch.div(vector, _length(vector), out=self._rows[self._size])
        self._size += 1

    def _grow(self, along: list[float]) -> None:
        """Add the newest vector to the operator; its part along the one before is known from that one's image."""
        size = len(along)
        grown = np.zeros((size, size))
        grown[:-1, :-1] = self.inside
        grown[-1] = grown[:, -1] = along
        if self._coupling is not None:
            if abs(along[-2] - self._coupling) > self._asymmetry * float(abs(grown).max()):
                raise Undefined(self._why_not_symmetric())
            grown[-1, -2] = grown[-2, -1] = self._coupling
        self.inside = grown

    def _why_not_symmetric(self) -> str:
        """An operator that is wrong is still linear; rounding errors are not."""
        one, other = self._rows[self._size - 2], self._rows[self._size - 1]
        parts = self._operator(one) + self._operator(other)
        off = _length(self._operator(one + other) - parts)
        return WRONG if off <= self._asymmetry / 10 * _length(parts) else ROUNDING

    def _told(self, coefficients: Matrix) -> Tensor:
        return torch.from_numpy(coefficients.copy()).to(self._rows)


def _orthogonalise(image: Tensor, rows: Tensor) -> list[float]:
    """Make an image orthogonal to rows, in place: twice, or rounding errors would grow; its parts along the rows."""
    along = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for _ in range(2):
        parts = _products(rows, image)
        image.addmv_(rows.mT, parts.to(image), alpha=-1)
        along += parts
    return along.tolist()


def _products(rows: Tensor, vector: Tensor) -> Tensor:
    """<q_i, v>, summed in double precision over pieces."""
    pieces = zip(rows.split(_piece(vector), 1), vector.split(_piece(vector)), strict=True)
    return torch.stack([row @ piece for row, piece in pieces]).double().sum(0)


def _length(vector: Tensor) -> float:
    """||v||."""
    return float(torch.stack([piece.norm() for piece in vector.split(_piece(vector))]).double().norm())


def _piece(vector: Tensor) -> int:
    """Numbers that are summed in one go: other devices sum in pairs."""
    return CHUNK if vector.device.type == "cpu" else max(1, vector.numel())


def _mixed(vectors: Matrix) -> Matrix:
    """Of the eigenvectors of the projection, the largest."""
    weights = np.array(MIXTURE[-vectors.shape[1] :])
    mixed: Matrix = vectors[:, -len(weights) :] @ (weights / np.linalg.norm(weights))
    return mixed
