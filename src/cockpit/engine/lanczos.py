"""Largest eigenvalue of a symmetric operator by the Lanczos method with full reorthogonalisation and thick restarts.

The basis never has more than a few vectors: when it is full it is replaced by its best approximations of the largest
eigenvectors, which continue the same Krylov space (Wu and Simon 2000).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cockpit.core.errors import Undefined

MOST, KEPT = 12, 5  # vectors of the basis; those that stay when it is full
BLOCK = 4  # vectors that are made room for at once
CHUNK = 2**18  # elements of each vector that are combined at once
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
        return self._blocks[(self.size - 1) // BLOCK][(self.size - 1) % BLOCK]

    def append(self, vector: Tensor) -> None:
        """Add a unit vector."""
        if self.size == BLOCK * len(self._blocks):
            self._blocks.append(self._like.new_empty(BLOCK, self._like.numel()))
        self.size += 1
        self.last.copy_(vector)

    def coefficients(self, vector: Tensor) -> Tensor:
        """<q_i, v> for every vector of the basis."""
        return torch.cat([block @ vector for block in self._filled()])

    def remove(self, vector: Tensor, coefficients: Tensor) -> None:
        """Subtract sum_i c_i q_i, in place."""
        for block, part in zip(self._filled(), coefficients.split(BLOCK), strict=True):
            vector.addmv_(block.mT, part, alpha=-1)

    def combine(self, coefficients: Tensor) -> Tensor:
        """sum_i c_i q_i."""
        parts = zip(self._filled(), coefficients.split(BLOCK), strict=True)
        return torch.stack([part @ block for block, part in parts]).sum(0)

    def replace(self, coefficients: Tensor) -> None:
        """Keep sum_i c_ij q_i for the columns j of [size, new size] instead, a piece of all vectors at a time."""
        filled, mix = self._filled(), coefficients.mT.to(self._like)
        for begin in range(0, self._like.numel(), CHUNK):
            pieces = [block[:, begin : begin + CHUNK] for block in filled]
            mixed = mix @ torch.cat(pieces)
            for place, row in enumerate(mixed):
                self._blocks[place // BLOCK][place % BLOCK, begin : begin + CHUNK] = row
        self.size = coefficients.shape[1]

    def _filled(self) -> list[Tensor]:
        full, rest = divmod(self.size, BLOCK)
        return self._blocks[:full] + ([self._blocks[full][:rest]] if rest else [])


class Projection:
    """The operator in the basis, and its eigenvalues there."""

    def __init__(self) -> None:
        self.matrix = torch.zeros(0, 0, dtype=torch.float64)

    def add(self, along: list[float], asymmetry: float, coupling: float | None) -> None:
        """The image of the newest vector; ``coupling``: its part along the one before, as that one's image had it."""
        size = len(along)
        grown = torch.zeros(size, size, dtype=torch.float64)
        grown[:-1, :-1] = self.matrix
        grown[-1] = grown[:, -1] = torch.tensor(along, dtype=torch.float64)
        if coupling is not None:
            if abs(along[-2] - coupling) > asymmetry * float(grown.abs().max()):
                raise Undefined("second derivatives are not symmetric: an operation's own double backward is wrong")
            grown[-1, -2] = grown[-2, -1] = coupling
        self.matrix = grown

    def solve(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues and eigenvectors."""
        values, vectors = torch.linalg.eigh(self.matrix)
        return values, vectors


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
    mixes in noise. ``product`` returns a tensor of its own.
    """
    size, basis, inside = start.numel(), Basis(start), Projection()
    settled, products, coupling = 0, 0, None
    while True:
        image = product(basis.last)
        products += 1
        along, beta = _orthogonalise(image, basis)
        if not beta < float("inf"):
            return Eigenpair(float("nan"), image, products, float("nan"))
        inside.add(along, asymmetry, coupling)
        values, vectors = inside.solve()
        residuals = (beta * vectors[-1].abs()).tolist()
        value, widest, residual = float(values[-1]), float(values.abs().max()), residuals[-1]
        scale = max(abs(value), FLAT * widest)
        settled = settled + 1 if residual <= 0.02 * tolerance * scale else 0
        done = settled >= 2 and products >= min(size, 6)
        if near and products >= min(size, 4) and len(residuals) > 1:
            gap = value - float(values[-2]) - residual - residuals[-2]  # at least so far from the second largest
            error = min(residual, residual**2 / gap) if gap > 0 else residual
            done |= error <= 0.1 * tolerance * scale and residual <= 3 * tolerance * scale
        if done or basis.size >= size or products >= limit:
            return Eigenpair(value, basis.combine(vectors[:, -1].to(image)), products, residual)
        if beta <= 1e-12 * max(1e-30, widest):  # an invariant subspace: look outside it
            image = torch.randn(size, generator=generator, dtype=torch.float64, device=generator.device).to(image)
            _orthogonalise(image, basis)
            beta = 0.0
        coupling = beta
        if basis.size >= MOST:
            basis.replace(vectors[:, -KEPT:])
            inside.matrix, coupling = torch.diag(values[-KEPT:]), None
        basis.append(image / image.norm())


def _orthogonalise(image: Tensor, basis: Basis) -> tuple[list[float], float]:
    """Make the image orthogonal to the basis, in place; its parts along the basis, and the length of what is left."""
    along = basis.coefficients(image)
    basis.remove(image, along)
    basis.remove(image, basis.coefficients(image))  # twice is enough
    *found, beta = torch.cat([along, image.norm()[None]]).tolist()  # the only look at numbers
    return found, beta
