"""Individual losses: each sample's contribution to the number that is backpropagated."""

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import Undefined
from cockpit.engine.graph import Graph, Node
from cockpit.layers.layout import Layout, candidates

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@dataclass
class LossCall:
    """One evaluation of the loss during the forward pass of a tracked step."""

    output: Tensor  # what the loss returned: a scalar, or one number per element
    values: Tensor | None = None  # individual values given by the user (``pit.loss``), before the mean
    module: nn.Module | None = None
    args: tuple[Any, ...] = ()
    arrived: list[Tensor] = field(default_factory=list)  # gradient at ``output``: the user's multiplier

    @property
    def node(self) -> Node:
        """Autograd node of the output."""
        return self.output.grad_fn

    @property
    def prediction(self) -> Tensor | None:
        """What the loss compares with the targets."""
        first = self.args[0] if self.args else None
        return first if isinstance(first, Tensor) and first.grad_fn is not None else None

    def contributions(self, samples: int, prediction: Layout | None, preferred: int) -> Tensor:
        """Return each sample's share of the backpropagated number, [samples]."""
        if not self.arrived:
            raise Undefined("the loss took no part in the backward pass")
        values, factor = self._values()
        weights = self.arrived[-1]
        weighted = values * weights if self.output.dim() else values * (factor * weights)
        layout = self._layout(tuple(values.shape), samples, prediction, preferred)
        return layout.sums(weighted.detach().double())

    def _values(self) -> tuple[Tensor, float]:
        """Unreduced values, and the factor from their sum to the output."""
        if self.values is not None:
            return self.values.detach(), 1 / max(1, self.values.numel())
        if self.output.dim():
            return self.output.detach(), 1.0
        return _unreduced(self.module, self.args, self.output.detach())

    def _layout(self, shape: tuple[int, ...], samples: int, prediction: Layout | None, preferred: int) -> Layout:
        first = self.prediction
        if prediction is not None and first is not None:
            if shape == tuple(first.shape):
                return prediction
            if shape and shape == tuple(first.shape[:-1]) and prediction.inner % first.shape[-1] == 0:
                return Layout(samples, prediction.inner // first.shape[-1])
        options = candidates(shape, samples, preferred)
        layout = options[0].layout(shape, samples) if options else None
        if layout is None:
            raise Undefined(
                f"individual losses of shape {shape} do not fit a batch of {samples} samples; "
                "give the batch size with watch(..., batch_size=...) or individual losses with pit.loss"
            )
        return layout


def _unreduced(module: nn.Module | None, args: tuple[Any, ...], total: Tensor) -> tuple[Tensor, float]:
    """Evaluate the loss once more with ``reduction="none"``."""
    reduction = getattr(module, "reduction", None)
    if module is None or reduction not in ("mean", "sum", "batchmean"):
        raise Undefined(
            f"{type(module).__name__} gives no individual losses (it has no `reduction`); "
            "use pit.loss(individual_losses) or watch(..., losses=...)"
        )
    twin = copy.copy(module)
    twin.reduction = "none"  # type: ignore[assignment]
    with torch.no_grad():
        values = type(module).forward(twin, *args).detach()
    summed = float(values.sum())
    known = {"mean": 1 / max(1, values.numel()), "sum": 1.0, "batchmean": 1 / max(1, len(values))}[reduction]
    tolerance = TOLERANCE.get(values.dtype, 2e-2) * max(float(values.abs().sum()) * known, 1e-30)
    if not abs(summed) < float("inf") or abs(summed * known - float(total)) <= tolerance:
        return values, known
    if isinstance(module, nn.CrossEntropyLoss | nn.NLLLoss) and summed:
        return values, float(total) / summed  # class weights and ignored targets change the denominator
    raise Undefined(f"{type(module).__name__} is not the {reduction} of its individual losses")


def share(values: Tensor, total: float, samples: int) -> Tensor:
    """Bring individual losses given from outside to shares of ``total``, [samples]."""
    if values.dim() == 0 or values.shape[0] != samples:
        raise Undefined(f"individual losses have shape {tuple(values.shape)} for a batch of {samples} samples")
    rows = values.detach().double().reshape(samples, -1).sum(1)
    summed = float(rows.sum())
    for factor in (1 / values.numel(), 1.0, 1 / samples):
        if abs(summed * factor - total) <= 1e-4 * max(float(rows.abs().sum()) * factor, 1e-30):
            return rows * factor
    if bool((rows >= 0).all()) and summed > 0:
        return rows * (total / summed)
    return rows / values.numel()


def in_graph(calls: list[LossCall], graph: Graph) -> list[LossCall]:
    """Keep the evaluations that lead to the backpropagated number."""
    return [call for call in calls if call.node is not None and call.node in graph]
