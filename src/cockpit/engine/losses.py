"""Individual losses: each sample's contribution to the number that is backpropagated."""

import copy
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import Undefined, why
from cockpit.engine.graph import Result
from cockpit.layers.layout import Layout

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@dataclass
class LossCall:
    """One evaluation of the loss: noted on the autograd node of what it returned."""

    output: int  # which output of the node
    scalar: bool
    values: Tensor | str  # unreduced and detached, or why there are none
    factor: float = 1.0  # from their sum to a scalar output
    prediction: Result | None = None  # what the loss compares with the targets
    given: Result | None = None  # individual losses handed over by the user
    arrived: Tensor | None = None  # gradient at the output: the user's multiplier

    @classmethod
    def of_module(cls, module: nn.Module, args: tuple[Any, ...], output: Tensor, individual: bool) -> "LossCall":
        """A loss module was called; ``individual``: its unreduced values are needed."""
        first = args[0] if args and isinstance(args[0], Tensor) and args[0].grad_fn is not None else None
        values: Tensor | str = "individual losses were not asked for"
        factor = 1.0
        if individual:
            try:
                values, factor = (output.detach(), 1.0) if output.dim() else _unreduced(module, args, output.detach())
            except Exception as error:
                values = why(error)
        prediction = None if first is None else Result.of(first)
        return cls(output.output_nr, output.dim() == 0, values, factor, prediction)

    @classmethod
    def of_values(cls, values: Tensor, mean: Tensor) -> "LossCall":
        """The user handed over individual losses and backpropagates their mean."""
        return cls(mean.output_nr, True, values.detach(), 1 / max(1, values.numel()), given=Result.of(values))

    def contributions(self, samples: int, placed: Layout | str) -> Tensor:
        """Return each sample's share of the backpropagated number, [samples]."""
        if isinstance(self.values, str):
            raise Undefined(self.values)
        if isinstance(placed, str):
            raise Undefined(placed)
        if self.arrived is None:
            raise Undefined("the loss took no part in the backward pass")
        weighted = self.values * (self.factor * self.arrived)
        return self._layout(tuple(self.values.shape), samples, placed).sums(weighted.double())

    def _layout(self, shape: tuple[int, ...], samples: int, placed: Layout) -> Layout:
        """Where the samples are in the values: as in what the loss saw, with or without an axis of classes."""
        seen = (self.prediction or self.given or Result(None, 0, shape, torch.float32, torch.device("cpu"))).shape
        if shape == seen:
            return placed
        if shape and shape == seen[:-1] and placed.inner % seen[-1] == 0:
            return Layout(samples, placed.inner // seen[-1])
        axis = placed.axis_of(seen)
        if len(seen) > 1 and shape == seen[:1] + seen[2:] and axis != 1 and axis >= 0:
            return Layout(samples, prod(shape[(axis if axis == 0 else axis - 1) + 1 :]))
        if shape == (samples,):
            return Layout(samples, 1)
        raise Undefined(
            f"individual losses of shape {shape} do not fit a batch of {samples} samples; "
            "give the batch size with watch(..., batch_size=...) or individual losses with pit.loss"
        )


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
