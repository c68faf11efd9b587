"""What an update rule is: where its state begins, and one step, for one run or for many side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]  # each as large as the parameters
Init = Callable[[Tensor], State]
Update = Callable[..., tuple[Tensor, State]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """What is said of an optimizer."""

    name: str
    paper: str
    summary: str  # the formula, in a line
    defaults: dict[str, float]
    space: dict[str, Any]  # what is searched, in the words of a study file and the order of its draws
    version: int  # counts up when the numbers change: results of two versions are never taken for the same


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule(Known):
    """An optimizer as a pure function.

    ``update(theta, gradient, state, t, **hyperparameters)`` gives the parameters and the state after step ``t``, which
    counts from 1. Each element goes by itself, so the parameters of many runs may stand in rows; hyperparameters are
    :class:`cockpit.optimizers.each.Each`, a number for each row or one for all.
    """

    init: Init
    update: Update
    judged: str | None = None  # the part of the state that is judged in place of the parameters


def begin(**values: float) -> Init:
    """A state that is constant at first: ``begin(m=0, v=0)``."""

    def init(theta: Tensor) -> State:
        return {name: torch.full_like(theta, value) for name, value in values.items()}

    return init


def averages(gradient: Tensor, state: Mapping[str, Tensor], beta1: Any, beta2: Any) -> tuple[Tensor, Tensor]:
    """Moving averages of the gradient and of its square."""
    mean = beta1 * state["m"] + (1 - beta1) * gradient
    return mean, beta2 * state["v"] + (1 - beta2) * gradient * gradient
