"""Gradient descent, and with a velocity."""

from typing import Any

from torch import Tensor

from cockpit.optimizers.rule import Rule, State, begin
from cockpit.optimizers.spaces import DECAY, RATE

_HEAVY = {"lr": 1e-2, "momentum": 0.99}
_SPACE = {**RATE, "momentum": DECAY}


def _sgd(theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any) -> tuple[Tensor, State]:
    return theta - lr * gradient, state


def _momentum(theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, momentum: Any) -> tuple[Tensor, State]:
    velocity = momentum * state["a"] + gradient
    return theta - lr * velocity, {"a": velocity}


def _nag(theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, momentum: Any) -> tuple[Tensor, State]:
    velocity = momentum * state["a"] + gradient
    return theta - lr * (gradient + momentum * velocity), {"a": velocity}


SGD = Rule(
    name="SGD",
    paper="Robbins and Monro 1951",
    summary="theta -= lr g",
    defaults={"lr": 1e-2},
    space=RATE,
    version=1,
    init=begin(),
    update=_sgd,
)
MOMENTUM = Rule(
    name="Momentum",
    paper="Polyak 1964",
    summary="a = momentum a + g; theta -= lr a",
    defaults=_HEAVY,
    space=_SPACE,
    version=1,
    init=begin(a=0),
    update=_momentum,
)
NAG = Rule(
    name="NAG",
    paper="Nesterov 1983",
    summary="a = momentum a + g; theta -= lr (g + momentum a)",
    defaults=_HEAVY,
    space=_SPACE,
    version=1,
    init=begin(a=0),
    update=_nag,
)
