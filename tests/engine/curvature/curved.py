"""A model, a loss and what the engine knows of their graph, for tests of the curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cockpit.engine.autograd.graph import Graph, Node, Result
from cockpit.engine.autograd.placement import Source, ask
from cockpit.engine.autograd.uses import find_uses
from cockpit.engine.curvature.gauss_newton import GaussNewton, Memory, Network
from cockpit.engine.curvature.loss_hessian import Loss
from cockpit.engine.curvature.product import HessianProduct
from cockpit.engine.curvature.second_order import Request
from cockpit.layers.layout import Layout

LossOf = Callable[[Tensor], Tensor]


@dataclass
class Curved:
    """One loss and its graph."""

    value: Tensor
    output: Tensor
    parameters: dict[str, Tensor]
    source: Source

    @property
    def graph(self) -> Graph:
        """Of the loss."""
        return Graph([self.value.grad_fn])

    @property
    def loss(self) -> Loss:
        """What lies above the output."""
        return Loss([self.value], [None], self.graph)

    @property
    def network(self) -> Network:
        """What lies below."""
        graph, samples = self.graph, self.source.layout.samples
        uses = find_uses(graph, self.parameters, samples, lambda places: ask(graph, places, samples, [self.source], 0))
        return Network(graph, self.parameters, [self.source], uses)

    def place(self, node: Node, output: int) -> Layout | None:
        """Where samples are in any other result."""
        result, samples = Result.at(node, output), self.source.layout.samples
        found = ask(self.graph, [(node, output)], samples, [self.source], 0)[node, output].placement
        return None if found is None else found.layout(result.shape, samples)

    def newton(self, memory: Memory | None = None) -> GaussNewton:
        """The Gauss-Newton matrix."""
        factor = self.loss.factor([self.source], self.place)
        return GaussNewton(factor, self.network, memory or Memory())

    @property
    def product(self) -> HessianProduct:
        """The Hessian."""
        return HessianProduct(self.loss, self.parameters)

    def request(self, **options: object) -> Request:
        """Everything that is known of the pass."""
        return Request(self.loss, self.network, None, self.place, **options)  # type: ignore[arg-type]


def curved(model: nn.Module, inputs: Tensor, loss_of: LossOf, axis: int = 0) -> Curved:
    """Run the model; the samples are along ``axis`` of its output."""
    output = model(inputs)
    value = loss_of(output)
    shape = tuple(output.shape)
    layout = Layout(shape[axis], int(torch.Size(shape[axis + 1 :]).numel()))
    source = Source.placed(Result.of(output), layout)
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    return Curved(value, output, named, source)


def gradients(values: Tensor, named: dict[str, Tensor]) -> Tensor:
    """Row by row, [values, D]."""
    made = []
    for value in values.flatten():
        grads = torch.autograd.grad(
            value, list(named.values()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        made.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(made)


def dense_newton(given: Curved, loss_of: LossOf) -> Tensor:
    """J^T H J from a dense Jacobian and a dense Hessian of the loss, [D, D]."""
    size = given.output.numel()
    hessian = torch.autograd.functional.hessian(loss_of, given.output.detach()).reshape(size, size)
    jacobian = gradients(given.output, given.parameters)
    return jacobian.mT @ hessian @ jacobian


def dense_hessian(given: Curved) -> Tensor:
    """[D, D]."""
    named = given.parameters
    grads = torch.autograd.grad(
        given.value, list(named.values()), create_graph=True, allow_unused=True, materialize_grads=True
    )
    rows = [
        gradients(grad, named) if grad.requires_grad else grad.new_zeros(grad.numel(), _size(named)) for grad in grads
    ]
    return torch.cat(rows)


def by_name(flat: Tensor, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parts of a vector in the shapes of the parameters."""
    parts = flat.split([p.numel() for p in named.values()])
    return {name: part.view_as(p) for (name, p), part in zip(named.items(), parts, strict=True)}


def check(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-9) -> None:
    """Equal, or as small as rounding; a parameter that nothing arrived at has a diagonal of zeros."""
    for name, value in expected.items():
        least = max(tolerance * float(value.abs().max()), 1e-14)
        given = found[name].double() if name in found else torch.zeros_like(value)
        torch.testing.assert_close(given, value, rtol=tolerance, atol=least)


def _size(named: dict[str, Tensor]) -> int:
    return sum(p.numel() for p in named.values())
