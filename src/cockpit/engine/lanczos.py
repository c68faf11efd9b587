"""Largest eigenvalue of a symmetric operator by the Lanczos method with full reorthogonalisation."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cockpit.core.errors import Undefined

BLOCK = 4  # vectors of the basis that are made room for at once
FLAT = 1e-7  # an eigenvalue so small beside the others is not resolved any further


@dataclass(frozen=True, slots=True)
class Eigenpair:
    """The algebraically largest eigenvalue, its vector, and what it took."""

    value: float
    vector: Tensor
    products: int
    residual: float  # ||H v - value v||: bounds the distance to the nearest eigenvalue


class Basis:
    """Orthonormal vectors, kept in blocks: a product with all of them is one product with each block."""

    def __init__(self, first: Tensor) -> None:
        self._like, self.size = first, 0
        self._blocks: list[Tensor] = []
        self.append(first / first.norm())

    @property
    def last(self) -> Tensor:
        """The newest vector."""
        return self._blocks[-1][(self.size - 1) % BLOCK]

    def append(self, vector: Tensor) -> None:
        """Add a unit vector."""
        if self.size % BLOCK == 0:
            self._blocks.append(self._like.new_empty(BLOCK, self._like.numel()))
        self._blocks[-1][self.size % BLOCK] = vector
        self.size += 1

    def coefficients(self, vector: Tensor) -> Tensor:
        """<q_i, v> for every vector of the basis."""
        return torch.cat([block @ vector for block in self._filled()])

    def combine(self, coefficients: Tensor) -> Tensor:
        """sum_i c_i q_i."""
        parts = zip(self._filled(), coefficients.split(BLOCK), strict=True)
        return torch.stack([part @ block for block, part in parts]).sum(0)

    def remove(self, vector: Tensor, coefficients: Tensor) -> None:
        """Subtract sum_i c_i q_i, in place."""
        for block, part in zip(self._filled(), coefficients.split(BLOCK), strict=True):
            vector.addmv_(block.mT, part, alpha=-1)

    def _filled(self) -> list[Tensor]:
        full, rest = divmod(self.size, BLOCK)
        return self._blocks[:full] + ([self._blocks[full][:rest]] if rest else [])


@dataclass
class Ritz:
    """The tridiagonal matrix of the operator in the basis, and its two largest eigenvalues."""

    diagonal: list[float]
    beside: list[float]

    def solve(self, beta: float) -> tuple[Tensor, Tensor, float, float]:
        """Eigenvalues, eigenvectors, and the residuals of the largest and the second largest."""
        matrix = torch.diag(torch.tensor(self.diagonal, dtype=torch.float64))
        if self.beside:
            off = torch.tensor(self.beside, dtype=torch.float64)
            matrix += torch.diag(off, 1) + torch.diag(off, -1)
        values, vectors = torch.linalg.eigh(matrix)
        residuals = (beta * vectors[-1].abs()).tolist()
        return values, vectors, residuals[-1], residuals[-2] if len(residuals) > 1 else float("inf")


def largest(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    generator: torch.Generator,
    tolerance: float = 1e-3,
    limit: int = 150,
    asymmetry: float = 1e-2,
    near: bool = False,
) -> Eigenpair:
    """Run Lanczos from ``start`` until the eigenvalue is right to ``tolerance``, relatively.

    From any start the residual must fall far below that, twice: a small one alone may belong to the second largest of
    two close eigenvalues. ``near``: the start is close to the eigenvector (that of the step before); then the error
    bound must hold with a margin of ten. A start that is an eigenvector already would never look elsewhere: the caller
    mixes in noise.
    """
    size, basis, found = start.numel(), Basis(start), Ritz([], [])
    settled = 0
    while True:
        image = product(basis.last)
        on_last, on_previous, beta = _orthogonalise(image, basis)
        found.diagonal.append(on_last)
        entries = found.diagonal + found.beside
        if found.beside and abs(on_previous - found.beside[-1]) > asymmetry * max(map(abs, entries)):
            raise Undefined("second derivatives are not symmetric: an operation's own double backward is wrong")
        if not beta < float("inf"):
            return Eigenpair(float("nan"), basis.last, basis.size, float("nan"))
        values, vectors, residual, second = found.solve(beta)
        value, widest = float(values[-1]), float(values.abs().max())
        scale = max(abs(value), FLAT * widest)
        settled = settled + 1 if residual <= 0.02 * tolerance * scale else 0
        done = settled >= 2 and basis.size >= min(size, 6)
        if near and basis.size >= min(size, 4):
            gap = value - float(values[-2]) - residual - second  # at least so far from the second largest
            error = min(residual, residual**2 / gap) if gap > 0 else residual
            done |= error <= 0.1 * tolerance * scale and residual <= 3 * tolerance * scale
        if done or basis.size >= min(size, limit):
            return Eigenpair(value, basis.combine(vectors[:, -1].to(image)), basis.size, residual)
        if beta <= 1e-12 * max(1e-30, widest):  # an invariant subspace: look outside it
            image = torch.randn(size, generator=generator, dtype=torch.float64, device=generator.device).to(image)
            _orthogonalise(image, basis)
            beta = 0.0
        found.beside.append(beta)
        basis.append(image / image.norm())


def _orthogonalise(image: Tensor, basis: Basis) -> tuple[float, float, float]:
    """Make the image orthogonal to the basis, in place; its parts along the last two vectors, and what is left."""
    along = basis.coefficients(image)
    basis.remove(image, along)
    basis.remove(image, basis.coefficients(image))  # twice is enough
    previous = along[-2] if basis.size > 1 else along[-1]
    last, before, beta = torch.stack([along[-1], previous, image.norm()]).tolist()  # the only look at numbers
    return last, before, beta
