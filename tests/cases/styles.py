"""What each loop means: which batches make a step, and what of the model the loss sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from . import loops

Read = Callable[[nn.Module, Any, Tensor], tuple[Tensor, Tensor]]


def read(model: nn.Module, args: Any, target: Tensor) -> tuple[Tensor, Tensor]:
    return model(*args), target


def read_flipped(model: nn.Module, args: Any, target: Tensor) -> tuple[Tensor, Tensor]:
    return model(args[0].flip(-1)), target


def read_flat(model: nn.Module, args: Any, target: Tensor) -> tuple[Tensor, Tensor]:
    return model(*args).flatten(0, -2), target.flatten()


def read_logits(model: nn.Module, kwargs: Any, target: Tensor) -> tuple[Tensor, Tensor]:
    return model(**kwargs).logits, target


def read_logits_flat(model: nn.Module, kwargs: Any, target: Tensor) -> tuple[Tensor, Tensor]:
    return model(**kwargs).logits.flatten(0, 1), target.flatten()


def read_next_token(model: nn.Module, kwargs: Any, target: Tensor) -> tuple[Tensor, Tensor]:
    return model(**kwargs).logits[:, :-1].flatten(0, 1), target[:, 1:].flatten()


def each(batches: Sequence[Any]) -> list[list[tuple[float, Any]]]:
    """Every batch is a step."""
    return [[(1.0, batch)] for batch in batches]


def pairs(batches: Sequence[Any]) -> list[list[tuple[float, Any]]]:
    """Two micro-batches make a step, half of each loss counts."""
    return [[(0.5, a), (0.5, b)] for a, b in zip(batches[::2], batches[1::2], strict=True)]


def finite(batches: Sequence[Any]) -> list[list[tuple[float, Any]]]:
    """Batches whose loss cannot be finite never become a step."""
    return each([b for b in batches if torch.isfinite(b.args[0]).all()])


def l2(model: nn.Module) -> Tensor:
    """The term that `loop_l2` adds to its loss."""
    return 0.05 * torch.stack([p.square().sum() for p in model.parameters()]).sum()


@dataclass(frozen=True)
class Loop:
    """A loop and its meaning: L of a step = sum over `plan` and `terms`, plus `penalty`."""

    run: Callable[[Any, Any, Any, Any, loops.OnStep], None]
    plan: Callable[[Sequence[Any]], list[list[tuple[float, Any]]]] = each
    terms: tuple[tuple[float, Read], ...] = ((1.0, read),)
    penalty: Callable[[nn.Module], Tensor] | None = None
    replay: Callable[[Any, Any, Any, Any, loops.OnStep], None] | None = None  # without lower precision


LOOPS: dict[str, Loop] = {
    "plain": Loop(loops.loop_plain),
    "zero_after": Loop(loops.loop_zero_after),
    "scheduled": Loop(loops.loop_scheduled),
    "accumulation": Loop(loops.loop_accumulation, plan=pairs),
    "clip_norm": Loop(loops.loop_clip_norm),
    "clip_value": Loop(loops.loop_clip_value),
    "autocast": Loop(loops.loop_autocast, replay=loops.loop_plain),
    "scaler": Loop(loops.loop_scaler, replay=loops.loop_plain),
    "scaler_clip": Loop(loops.loop_scaler_clip, replay=loops.loop_clip_norm),
    "evaluation": Loop(loops.loop_evaluation),
    "evaluation_with_grad": Loop(loops.loop_evaluation_with_grad),
    "compiled": Loop(loops.loop_compiled, replay=loops.loop_plain),
    "mean_of_none": Loop(loops.loop_mean_of_none),
    "l2": Loop(loops.loop_l2, penalty=l2),
    "skip_not_finite": Loop(loops.loop_skip_not_finite, plan=finite),
    "closure": Loop(loops.loop_closure),
    "two_optimizers": Loop(loops.loop_two_optimizers),
    "two_forwards": Loop(loops.loop_two_forwards, terms=((1.0, read), (0.5, read_flipped))),
    "flat": Loop(loops.loop_flat, terms=((1.0, read_flat),)),
    "logits": Loop(loops.loop_logits, terms=((1.0, read_logits),)),
    "logits_flat": Loop(loops.loop_logits_flat, terms=((1.0, read_logits_flat),)),
    "own_loss": Loop(loops.loop_own_loss, terms=((1.0, read_logits),)),
    "own_next_token_loss": Loop(loops.loop_own_loss, terms=((1.0, read_next_token),)),
}
