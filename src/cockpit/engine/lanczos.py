"""Largest eigenvalue of a symmetric operator by the Lanczos method with full reorthogonalisation."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cockpit.core.errors import Undefined


@dataclass(frozen=True, slots=True)
class Eigenpair:
    """The algebraically largest eigenvalue, its vector, and what it took."""

    value: float
    vector: Tensor
    products: int
    residual: float  # ||H v - value v||: bounds the distance to the nearest eigenvalue


def largest(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    generator: torch.Generator,
    tolerance: float = 1e-3,
    limit: int = 150,
    asymmetry: float = 1e-2,
) -> Eigenpair:
    """Run Lanczos from ``start`` until the eigenvalue is right to ``tolerance``, relatively.

    The residual must fall well below that: a small one alone may belong to the second largest of two close eigenvalues.
    A start that is an eigenvector already (a warm start) would never look elsewhere: the caller mixes in noise.
    """
    size = start.numel()
    basis = [start / start.norm()]
    diagonal: list[float] = []
    beside: list[float] = []
    settled = 0
    while True:
        image = product(basis[-1])
        diagonal.append(float(image @ basis[-1]))
        if beside and abs(float(image @ basis[-2]) - beside[-1]) > asymmetry * max(map(abs, diagonal + beside)):
            raise Undefined("second derivatives are not symmetric: an operation's own double backward is wrong")
        stacked = torch.stack(basis)
        for _ in range(2):  # twice is enough
            image = image - stacked.mT @ (stacked @ image)
        beta = float(image.norm())
        tridiagonal = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
        if beside:
            off = torch.tensor(beside, dtype=torch.float64)
            tridiagonal += torch.diag(off, 1) + torch.diag(off, -1)
        values, vectors = torch.linalg.eigh(tridiagonal)
        value, residual = float(values[-1]), beta * abs(float(vectors[-1, -1]))
        scale = max(abs(value), 1e-7 * float(values.abs().max()))
        settled = settled + 1 if residual <= 0.02 * tolerance * scale else 0
        used = len(diagonal)
        if used >= min(size, limit) or (settled >= 2 and used >= min(size, 6)) or not beta < float("inf"):
            weights = vectors[:, -1].to(stacked)
            return Eigenpair(value, stacked.mT @ weights, used, residual)
        if beta <= 1e-12 * max(1e-30, float(values.abs().max())):  # an invariant subspace: look outside it
            fresh = torch.randn(size, generator=generator, dtype=torch.float64, device=generator.device).to(image)
            for _ in range(2):
                fresh = fresh - stacked.mT @ (stacked @ fresh)
            image, beta = fresh, 0.0
        beside.append(beta)
        basis.append(image / image.norm())
