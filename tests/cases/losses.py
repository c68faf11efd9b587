"""Losses: what the user writes, and what it is as a sum over samples divided by a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Loss:
    """L = total(outputs, targets) / count(targets), where `total` adds up over samples.

    So the contribution of sample n to L is total(outputs of n, targets of n) / count(all targets),
    whatever the reduction.
    """

    make: Callable[[], Callable[..., Tensor]]
    total: Callable[[Tensor, Tensor], Tensor]
    count: Callable[[Tensor], float]


def _one(target: Tensor) -> float:
    return 1.0


def _elements(target: Tensor) -> float:
    return float(target.numel())


def _rows(target: Tensor) -> float:
    return float(target.shape[0])


def cross_entropy(
    reduction: str = "mean",
    weight: tuple[float, ...] | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
) -> Loss:
    """Cross entropy with class indices; a weighted mean divides by the weights of the targets."""
    smooth: dict[str, Any] = {"label_smoothing": label_smoothing, "ignore_index": ignore_index}

    def weights(dtype: torch.dtype = torch.float64) -> Tensor | None:
        return None if weight is None else torch.tensor(weight, dtype=dtype)

    def total(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target, weights(output.dtype), reduction="sum", **smooth)

    def count(target: Tensor) -> float:
        kept = target[target != ignore_index]
        class_weights = weights()
        return float(kept.numel() if class_weights is None else class_weights[kept].sum())

    return Loss(
        lambda: nn.CrossEntropyLoss(weights(), reduction=reduction, **smooth),
        total,
        {"mean": count, "sum": _one, "none": _elements}[reduction],
    )


def soft_cross_entropy() -> Loss:
    """Cross entropy with class probabilities [N, C]: the mean divides by N."""
    return Loss(nn.CrossEntropyLoss, lambda o, t: F.cross_entropy(o, t, reduction="sum"), _rows)


def mse(reduction: str = "mean") -> Loss:
    """Squared error."""
    return Loss(
        lambda: nn.MSELoss(reduction=reduction),
        lambda o, t: (o - t).square().sum(),
        {"mean": _elements, "sum": _one}[reduction],
    )


def bce_with_logits(pos_weight: float | None = None) -> Loss:
    """Binary cross entropy of logits."""

    def weight() -> Tensor | None:
        return None if pos_weight is None else torch.tensor([pos_weight], dtype=torch.float64)

    return Loss(
        lambda: nn.BCEWithLogitsLoss(pos_weight=weight()),
        lambda o, t: F.binary_cross_entropy_with_logits(o, t, reduction="sum", pos_weight=weight()),
        _elements,
    )


def huber(delta: float = 0.7) -> Loss:
    """Huber loss."""
    return Loss(
        lambda: nn.HuberLoss(delta=delta),
        lambda o, t: F.huber_loss(o, t, reduction="sum", delta=delta),
        _elements,
    )


def nll() -> Loss:
    """Negative log likelihood of what the model puts out."""
    return Loss(nn.NLLLoss, lambda o, t: F.nll_loss(o, t, reduction="sum"), _elements)


def poisson_nll() -> Loss:
    """A loss that is unlikely to have a closed form in a tool."""
    return Loss(nn.PoissonNLLLoss, lambda o, t: F.poisson_nll_loss(o, t, reduction="sum"), _elements)


class LogCosh(nn.Module):
    """A user's own loss module."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).cosh().log().mean()


def log_cosh() -> Loss:
    """The user's own loss module."""
    return Loss(LogCosh, lambda o, t: (o - t).cosh().log().sum(), _elements)


def function_cross_entropy() -> Loss:
    """The user passes a function, not a module."""
    return Loss(lambda: F.cross_entropy, lambda o, t: F.cross_entropy(o, t, reduction="sum"), _elements)
