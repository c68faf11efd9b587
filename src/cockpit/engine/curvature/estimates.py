"""The diagonal of the Hessian from products with it: exact, or by Hutchinson's estimator."""

import torch

from cockpit.core.errors import Undefined
from cockpit.engine.curvature.factors import random_signs
from cockpit.engine.curvature.product import HessianProduct, Vectors
from cockpit.layers.forms import wide

MAX_HESSIAN = 20_000  # parameters for which the exact Hessian diagonal is formed


def hessian_diagonal(product: HessianProduct) -> Vectors:
    """Exact diagonal, one product for each parameter element: for small nets and tests."""
    total = sum(p.numel() for p in product.parameters.values())
    if total > MAX_HESSIAN:
        raise Undefined(
            f"the exact Hessian diagonal takes one product for each of {total} parameters (limit {MAX_HESSIAN}); "
            "use curvature='hutchinson'"
        )
    diagonal = {name: torch.zeros_like(p) for name, p in product.parameters.items()}
    unit = {name: torch.zeros_like(p) for name, p in product.parameters.items()}
    for name, vector in unit.items():
        flat, entries = vector.view(-1), diagonal[name].view(-1)
        for place in range(flat.numel()):
            flat[place] = 1
            entries[place] = product(unit)[name].reshape(-1)[place]
            flat[place] = 0
    return diagonal


def hutchinson(product: HessianProduct, probes: int, generator: torch.Generator) -> list[Vectors]:
    """v * H v for random signs v: each is an unbiased estimate of the diagonal."""
    estimates = []
    for _ in range(probes):
        signs = {name: random_signs(tuple(p.shape), wide(p[:0]), generator) for name, p in product.parameters.items()}
        products = product(signs)
        estimates.append({name: signs[name] * products[name] for name in signs})
    return estimates
