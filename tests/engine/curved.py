"""A model, a loss and what the engine knows of their graph, for tests of the curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cockpit.engine.autograd.graph import Graph, Result
from cockpit.engine.blueprint import Found
from cockpit.engine.gauss_newton import GaussNewton
from cockpit.engine.output_hessian import OutputHessian
from cockpit.engine.placement import Finder, Source
from cockpit.engine.settings import Settings
from cockpit.layers.layout import Layout


@dataclass
class Curved:
    """One loss and its graph."""

    loss: Tensor
    output: Tensor
    parameters: dict[str, Tensor]
    graph: Graph
    source: Source

    @property
    def newton(self) -> GaussNewton:
        """The Gauss-Newton matrix as the engine sees it."""
        return self.newton_with(Settings())

    def newton_with(self, settings: Settings) -> GaussNewton:
        """The same, with a memory."""
        samples = self.source.layout.samples
        paths, placed = Finder().paths(self.graph, self.parameters, samples, [self.source])
        found = Found(paths, placed, [self.source])
        hessian = OutputHessian([self.loss], [None], [self.source], self.graph, settings.trusted)
        return GaussNewton(hessian, self.graph, found, self.parameters, settings)


def curved(
    model: nn.Module, inputs: Tensor, loss_of: Callable[[Tensor], Tensor], axis: int = 0, samples: int | None = None
) -> Curved:
    """Run the model; the samples are along ``axis`` of its output."""
    output = model(inputs)
    loss = loss_of(output)
    shape = tuple(output.shape)
    layout = Layout(samples or shape[axis], int(torch.Size(shape[axis + 1 :]).numel()))
    found = Result.of(output)
    source = Source(found.node, found.output, shape, layout, output.dtype, output.device)
    return Curved(loss, output, dict(model.named_parameters()), Graph([loss.grad_fn]), source)


def dense_diagonal(model: nn.Module, inputs: Tensor, loss_of: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """The diagonal of J^T H J from a dense Jacobian and a dense Hessian of the loss."""
    named = dict(model.named_parameters())
    output = model(inputs)
    hessian = torch.autograd.functional.hessian(loss_of, output.detach()).reshape(output.numel(), -1)
    rows = []
    for value in output.flatten():
        grads = torch.autograd.grad(value, list(named.values()), retain_graph=True, allow_unused=True)
        filled = [torch.zeros_like(p) if g is None else g for g, p in zip(grads, named.values(), strict=True)]
        rows.append(torch.cat([g.flatten() for g in filled]))
    jacobian = torch.stack(rows)
    diagonal = torch.einsum("kd,kl,ld->d", jacobian, hessian, jacobian)
    parts = diagonal.split([p.numel() for p in named.values()])
    return {name: part.view_as(p) for (name, p), part in zip(named.items(), parts, strict=True)}
