"""A rate of its own for each element, without momentum: RMSprop, Adagrad, Adadelta, as TensorFlow 1 has them."""

from typing import Any

from torch import Tensor

from cockpit.optimizers.each import sqrt
from cockpit.optimizers.rule import Rule, State, begin
from cockpit.optimizers.spaces import DECAY, RATE


def _rmsprop(
    theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, alpha: Any, eps: Any
) -> tuple[Tensor, State]:
    s = alpha * state["s"] + (1 - alpha) * gradient * gradient
    return theta - lr * gradient / sqrt(s + eps), {"s": s}


def _adagrad(theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any) -> tuple[Tensor, State]:
    s = state["s"] + gradient * gradient
    return theta - lr * gradient / sqrt(s), {"s": s}


def _adadelta(
    theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, rho: Any, eps: Any
) -> tuple[Tensor, State]:
    s = rho * state["s"] + (1 - rho) * gradient * gradient
    step = sqrt(state["d"] + eps) / sqrt(s + eps) * gradient
    return theta - lr * step, {"s": s, "d": rho * state["d"] + (1 - rho) * step * step}


RMSPROP = Rule(
    name="RMSprop",
    paper="Tieleman and Hinton 2012",
    summary="s = alpha s + (1 - alpha) g^2, 1 at first; theta -= lr g / sqrt(s + eps)",
    defaults={"lr": 1e-3, "alpha": 0.9, "eps": 1e-10},
    space={**RATE, "alpha": DECAY},
    version=1,
    init=begin(s=1),
    update=_rmsprop,
)
ADAGRAD = Rule(
    name="Adagrad",
    paper="Duchi, Hazan and Singer 2011",
    summary="s = s + g^2, 0.1 at first; theta -= lr g / sqrt s",
    defaults={"lr": 1e-2},
    space=RATE,
    version=1,
    init=begin(s=0.1),
    update=_adagrad,
)
ADADELTA = Rule(
    name="Adadelta",
    paper="Zeiler 2012",
    summary="s = rho s + (1 - rho) g^2; u = sqrt(d + eps) / sqrt(s + eps) g; d = rho d + (1 - rho) u^2; theta -= lr u",
    defaults={"lr": 1e-3, "rho": 0.95, "eps": 1e-8},
    space={**RATE, "rho": DECAY},
    version=1,
    init=begin(s=0, d=0),
    update=_adadelta,
)
