"""Products with the Hessian of the backpropagated number, by differentiating its gradient once more; its diagonal."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.autograd.graph import Graph, edge
from cockpit.engine.curvature.factors import Closed, random_signs
from cockpit.engine.curvature.loss_hessian import Loss
from cockpit.layers.forms import wide

Vectors = dict[str, Tensor]
MAX_HESSIAN = 20_000  # parameters for which the exact Hessian diagonal is formed
AGREES = {torch.float64: 1e-8, torch.float32: 1e-2}  # with autograd; single precision may have ten bits on a GPU
ONCE = "the network cannot be differentiated twice: a backward in it is marked once_differentiable"
SATURATED = "the loss is saturated: every prediction is certain to 14 digits, and what curvature is left has none"


class HessianProduct:
    """v -> H v = J^T (B J v) + (d/dw J^T s) v, where J is the Jacobian of some results of the graph with respect to the
    parameters w, s the gradient with respect to these results, and B the Hessian.

    The results are those that the loss takes, where s and B have a closed form: autograd's second derivative of a
    saturated loss has no digits left. Otherwise they are what is backpropagated, with B = 0.
    """

    def __init__(self, loss: Loss, parameters: Mapping[str, Tensor]) -> None:
        self.parameters = dict(parameters)
        self._parts = _closed(loss, parameters)
        if self._parts and all(part.certain for part in self._parts):
            raise Undefined(SATURATED)
        self._tops: list[Any] = list(loss.roots)
        seeds = [
            torch.ones_like(root) if seed is None else seed for root, seed in zip(loss.roots, loss.seeds, strict=True)
        ]
        if self._parts:
            self._tops = [edge(part.target.node, part.target.output) for part in self._parts]
            seeds = [part.slope() for part in self._parts]
        self._seeds = [seed.detach().requires_grad_() for seed in seeds]
        with torch.enable_grad():
            grads = self._autograd(self._tops, list(parameters.values()), self._seeds, create_graph=True)
        self._places = [place for place, grad in enumerate(grads) if grad is not None and grad.requires_grad]
        self._grads = [grad for place in self._places if (grad := grads[place]) is not None]
        if any(node.name().endswith("::Error") for node in Graph([grad.grad_fn for grad in self._grads]).nodes):
            raise Undefined(ONCE)  # autograd would pass over it without a word

    def __call__(self, vectors: Vectors) -> Vectors:
        """Return H v."""
        if not self._grads:
            return {name: torch.zeros_like(v) for name, v in vectors.items()}
        directions = list(vectors.values())
        above, given = list[Any](self._grads), [directions[place] for place in self._places]
        if self._parts:
            moved = self._autograd(self._grads, self._seeds, given)  # J v
            bent = [(t, p.product(m)) for t, p, m in zip(self._tops, self._parts, moved, strict=True) if m is not None]
            above, given = above + [top for top, _ in bent], given + [image for _, image in bent]
        there = [place for place, root in enumerate(above) if not isinstance(root, Tensor) or root.requires_grad]
        images = self._autograd([above[k] for k in there], list(self.parameters.values()), [given[k] for k in there])
        named = zip(self.parameters, images, strict=True)
        return {name: torch.zeros_like(vectors[name]) if image is None else image for name, image in named}

    def flat(self, vector: Tensor) -> Tensor:
        """H v with all parameters in one vector."""
        parts = vector.split([p.numel() for p in self.parameters.values()])
        shaped = {name: part.view_as(p).to(p) for (name, p), part in zip(self.parameters.items(), parts, strict=True)}
        return torch.cat([image.reshape(-1).to(vector) for image in self(shaped).values()])

    def _autograd(
        self, above: Sequence[Any], below: Sequence[Any], given: Sequence[Tensor], create_graph: bool = False
    ) -> Sequence[Tensor | None]:
        try:
            return torch.autograd.grad(
                above, below, given, retain_graph=True, create_graph=create_graph, allow_unused=True
            )
        except RuntimeError as error:
            first = str(error).splitlines()[0].rstrip(".")
            raise Undefined(f"the network cannot be differentiated twice: {first}") from error


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


def _closed(loss: Loss, parameters: Mapping[str, Tensor]) -> list[Closed]:
    """Closed forms of the loss, if autograd sends what they say: a hook, which no graph shows, may change gradients."""
    parts = loss.parts(parameters)
    if not parts:
        return []
    arrived = loss.gradients([(part.target.node, part.target.output) for part in parts])
    return parts if all(_agrees(grad.detach(), part) for grad, part in zip(arrived, parts, strict=True)) else []


def _agrees(grad: Tensor, part: Closed) -> bool:
    rounding = 100 * torch.finfo(grad.dtype).eps * part.scale
    off, size = float((grad - part.slope()).double().norm()), float(grad.double().norm())
    return off <= AGREES.get(grad.dtype, 0.1) * size + rounding
