"""Everything that multiplies by the Hessian, on the user's own graph."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.lanczos import Basis
from cockpit.layers.forms import wide

MAX_HESSIAN = 20_000  # parameters for which the exact Hessian diagonal is formed

Vectors = dict[str, Tensor]


class Product(ABC):
    """v -> H v for the backpropagated number."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self.parameters = dict(parameters)
        self.products = 0  # so far

    @abstractmethod
    def __call__(self, vectors: Vectors) -> Vectors:
        """Return H v."""

    def flat(self, vector: Tensor) -> Tensor:
        """The same for all parameters in one vector; a tensor of its own."""
        image = self(self.parts(vector))
        return torch.cat([part.reshape(-1) for part in image.values()])

    def basis(self, start: Tensor) -> Basis:
        """To be filled by products, from a start that need not have any length."""
        return Basis(self.flat, start)

    def parts(self, vector: Tensor) -> Vectors:
        """The parts of a vector that belong to the parameters."""
        parts = vector.split([p.numel() for p in self.parameters.values()])
        return {name: part.view_as(p) for (name, p), part in zip(self.parameters.items(), parts, strict=True)}


class HessianProduct(Product):
    """v -> H v for the backpropagated number, by differentiating its gradient once more."""

    def __init__(
        self, roots: Sequence[Tensor], seeds: Sequence[Tensor | None], parameters: Mapping[str, Tensor]
    ) -> None:
        super().__init__(parameters)
        with torch.enable_grad():
            try:
                grads = torch.autograd.grad(
                    list(roots), list(self.parameters.values()), list(seeds), create_graph=True, allow_unused=True
                )
            except RuntimeError as error:
                raise Undefined(f"the network cannot be differentiated twice: {_first_line(error)}") from error
        self._grads = [grad for grad in grads if grad is not None and grad.requires_grad]
        self._places = [place for place, grad in enumerate(grads) if grad is not None and grad.requires_grad]

    def __call__(self, vectors: Vectors) -> Vectors:
        """Return H v."""
        self.products += 1
        if not self._grads:
            return {name: torch.zeros_like(v) for name, v in vectors.items()}
        directions = list(vectors.values())
        try:
            products = torch.autograd.grad(
                self._grads,
                list(self.parameters.values()),
                [directions[place] for place in self._places],
                retain_graph=True,
                allow_unused=True,
            )
        except RuntimeError as error:
            raise Undefined(f"the network cannot be differentiated twice: {_first_line(error)}") from error
        named = zip(self.parameters, products, strict=True)
        return {name: torch.zeros_like(vectors[name]) if hv is None else hv for name, hv in named}


def hessian_diagonal(product: Product) -> Vectors:
    """Exact diagonal, one product for each parameter element: for small nets and tests."""
    total = sum(p.numel() for p in product.parameters.values())
    if total > MAX_HESSIAN:
        raise Undefined(f"the exact Hessian diagonal of {total} parameters is too dear; use curvature='hutchinson'")
    diagonal = {name: torch.zeros_like(p) for name, p in product.parameters.items()}
    basis = {name: torch.zeros_like(p) for name, p in product.parameters.items()}
    for name, vector in basis.items():
        flat, found = vector.view(-1), diagonal[name].view(-1)
        for place in range(flat.numel()):
            flat[place] = 1
            found[place] = product(basis)[name].reshape(-1)[place]
            flat[place] = 0
    return diagonal


def hutchinson(product: Product, probes: int, generator: torch.Generator) -> list[Vectors]:
    """v * H v for random signs v: each is an unbiased estimate of the diagonal."""
    estimates = []
    for _ in range(probes):
        signs = {name: random_signs(p.shape, p, generator) for name, p in product.parameters.items()}
        products = product(signs)
        estimates.append({name: signs[name] * products[name] for name in signs})
    return estimates


def random_signs(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """1 or -1."""
    bits = torch.randint(0, 2, tuple(shape), generator=generator, device=generator.device)
    return (2 * bits - 1).to(like.device, wide(like[:0]).dtype)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
