"""Individual losses: each sample's contribution to the number that is backpropagated."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from cockpit.core.errors import Undefined
from cockpit.core.guard import entry
from cockpit.engine.autograd.graph import Result
from cockpit.layers.layout import Layout


@dataclass
class LossCall:
    """One evaluation of the loss: noted on the autograd node of what it returned."""

    output: int  # which output of the node
    module: nn.Module | None = None  # to be evaluated once more, without its reduction
    arguments: tuple[Any, ...] = ()
    result: Tensor | None = None  # what the loss returned, or the individual losses that the user handed over
    factor: float | None = None  # from the sum of the values to the loss; None: by the module's reduction
    prediction: Result | None = None  # what the loss compares with the targets
    given: Result | None = None  # individual losses handed over by the user
    arrived: Tensor | None = None  # gradient at the output: the user's multiplier

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what the loss saw."""
        seen = self.prediction or self.given
        return () if seen is None else seen.shape

    @classmethod
    def of_module(cls, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> "LossCall":
        """A loss module was called."""
        first = args[0] if args and isinstance(args[0], Tensor) and args[0].grad_fn is not None else None
        detached = tuple(arg.detach() if isinstance(arg, Tensor) else arg for arg in args)
        prediction = None if first is None else Result.of(first)
        return cls(output.output_nr, module, detached, output.detach(), prediction=prediction)

    @classmethod
    def of_values(cls, values: Tensor, mean: Tensor) -> "LossCall":
        """The user handed over individual losses and backpropagates their mean."""
        factor = 1 / max(1, values.numel())
        return cls(mean.output_nr, result=values.detach(), factor=factor, given=Result.of(values))

    @entry
    def keep(self, grads: Sequence[Tensor | None]) -> None:
        """Autograd has the gradient at the output."""
        grad = grads[self.output]
        self.arrived = None if grad is None else grad.detach()

    def fault(self, error: Exception) -> None:
        """Without it nothing is known of the call."""
        self.arrived = None

    def contributions(self, samples: int, placed: Layout | str) -> Tensor:
        """Return each sample's share of the backpropagated number, [samples]."""
        if isinstance(placed, str):
            raise Undefined(placed)
        if self.arrived is None:
            raise Undefined("the loss took no part in the backward pass")
        values, factor = self._values()
        layout = self._layout(tuple(values.shape), samples, placed)
        return layout.sums((values * (factor * self.arrived)).double())

    def _values(self) -> tuple[Tensor, float | Tensor]:
        """Unreduced losses, and the factor from their sum to the loss."""
        assert self.result is not None
        if self.factor is not None:
            return self.result, self.factor
        if self.result.dim():
            return self.result, 1.0
        return _unreduced(self.module, self.arguments, self.result)

    def _layout(self, shape: tuple[int, ...], samples: int, placed: Layout) -> Layout:
        """Where the samples are in the values: as in what the loss saw, with or without an axis of classes."""
        seen = self.shape
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


def _unreduced(module: nn.Module | None, args: tuple[Any, ...], total: Tensor) -> tuple[Tensor, float | Tensor]:
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
        values: Tensor = type(module).forward(twin, *map(_single, args))
    known = {"mean": 1 / max(1, values.numel()), "sum": 1.0, "batchmean": 1 / max(1, len(values))}[reduction]
    if not isinstance(module, nn.CrossEntropyLoss | nn.NLLLoss):
        return values, known
    summed = values.sum()  # weights and ignored targets: another denominator
    return values, torch.where(summed == 0, known, total.to(values.dtype) / summed)


def _single(arg: Any) -> Any:
    """Half precision is widened, as autocast does around a loss."""
    half = isinstance(arg, Tensor) and arg.dtype in (torch.float16, torch.bfloat16)
    return arg.float() if half else arg


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
