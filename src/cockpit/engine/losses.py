"""Individual losses: each sample's contribution to the number that is backpropagated."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cockpit.core.errors import Undefined
from cockpit.core.guard import entry
from cockpit.engine import native
from cockpit.engine.graph import Result
from cockpit.layers.layout import Layout

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


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
    prompt: bool = True  # numbers may be looked at at once

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

    def tensors(self) -> Iterator[Tensor]:
        """Everything that :meth:`contributions` reads, in a fixed order."""
        yield from (arg for arg in self.arguments if isinstance(arg, Tensor))
        yield from (tensor for tensor in (self.result, self.arrived) if tensor is not None)

    def like(self, draw: Callable[[Tensor], Tensor]) -> "LossCall":
        """The same call on memory of our own, which is drawn."""
        arguments = tuple(draw(arg) if isinstance(arg, Tensor) else arg for arg in self.arguments)
        result, arrived = (None if t is None else draw(t) for t in (self.result, self.arrived))
        return replace(self, arguments=arguments, result=result, arrived=arrived, prompt=False)

    def contributions(self, samples: int, placed: Layout | str) -> Tensor:
        """Return each sample's share of the backpropagated number, [samples]."""
        if isinstance(placed, str):
            raise Undefined(placed)
        if self.arrived is None:
            raise Undefined("the loss took no part in the backward pass")
        values, factor = self._values()
        layout = self._layout(tuple(values.shape), samples, placed)
        if not isinstance(factor, Ratio):
            return layout.sums((values * (factor * self.arrived)).double())
        if native.usable(values, factor.total, self.arrived) and values.shape == (samples,):
            return native.shares(values, factor.total, factor.known, self.arrived)
        return layout.sums((values * (factor.tensor(values) * self.arrived)).double())

    def _values(self) -> "tuple[Tensor, float | Ratio]":
        """Unreduced losses, and the factor from their sum to the loss."""
        assert self.result is not None
        if self.factor is not None:
            return self.result, self.factor
        if self.result.dim():
            return self.result, 1.0
        return _unreduced(self.module, self.arguments, self.result, self.prompt)

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


def _unreduced(
    module: nn.Module | None, args: tuple[Any, ...], total: Tensor, prompt: bool
) -> "tuple[Tensor, float | Ratio]":
    """Evaluate the loss once more with ``reduction="none"``; ``prompt``: check that it is the reduction it says."""
    reduction = getattr(module, "reduction", None)
    if module is None or reduction not in ("mean", "sum", "batchmean"):
        raise Undefined(
            f"{type(module).__name__} gives no individual losses (it has no `reduction`); "
            "use pit.loss(individual_losses) or watch(..., losses=...)"
        )
    values = _evaluate(module, [_single(arg) for arg in args])
    known = {"mean": 1 / max(1, values.numel()), "sum": 1.0, "batchmean": 1 / max(1, len(values))}[reduction]
    weighted = isinstance(module, nn.CrossEntropyLoss | nn.NLLLoss)  # weights and ignored targets: another denominator
    if not prompt:
        return values, Ratio(total, known) if weighted else known
    summed = float(values.sum())
    size = abs(summed) if type(module) is nn.CrossEntropyLoss else float(values.abs().sum())
    tolerance = TOLERANCE.get(total.dtype, 2e-2) * max(size * known, 1e-30)
    if not abs(summed) < float("inf") or abs(summed * known - float(total)) <= tolerance:
        return values, known
    if weighted and summed:
        return values, float(total) / summed
    raise Undefined(f"{type(module).__name__} is not the {reduction} of its individual losses")


@torch.no_grad()
def _evaluate(module: nn.Module, args: Sequence[Any]) -> Tensor:
    """The loss without its reduction."""
    if type(module) is nn.CrossEntropyLoss and len(args) == 2:  # by far the commonest: no copy of the module
        if _few_classes(module, *args):
            return native.cross_entropy(args[0], args[1], module.ignore_index)
        return F.cross_entropy(
            args[0],
            args[1],
            weight=module.weight,
            ignore_index=module.ignore_index,
            reduction="none",
            label_smoothing=module.label_smoothing,
        )
    twin = copy.copy(module)
    twin.reduction = "none"  # type: ignore[assignment]
    found: Tensor = type(module).forward(twin, *args).detach()
    return found


def _few_classes(module: nn.CrossEntropyLoss, logits: Any, targets: Any) -> bool:
    """Whether the loss is that of plain classes, and so small that torch takes longer to begin than it takes."""
    if module.weight is not None or module.label_smoothing or targets.dtype is not torch.int64:
        return False
    small = logits.dim() == 2 and 0 < logits.numel() <= native.FEW and targets.shape == logits.shape[:1]
    return small and targets.device.type == "cpu" and native.usable(logits)


@dataclass(frozen=True)
class Ratio:
    """The factor from the sum of the losses to the loss, found by dividing; ``known`` where they are all zero."""

    total: Tensor
    known: float

    def tensor(self, values: Tensor) -> Tensor:
        """Without looking at the numbers."""
        summed = values.sum()
        return torch.where(summed == 0, self.known, self.total.to(values.dtype) / summed)


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
