"""Adam and its relatives, with TensorFlow 1's bias correction: eps is added to the uncorrected root."""

from typing import Any

import torch
from torch import Tensor

from cockpit.optimizers.each import sqrt
from cockpit.optimizers.rule import Rule, State, averages, begin
from cockpit.optimizers.spaces import MOMENTS, RATE

_SPACE = {**RATE, **MOMENTS}
_BETAS = {"beta1": 0.9, "beta2": 0.999}
_MOMENTS = "m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; c = sqrt(1 - beta2^t) / (1 - beta1^t); "


def correction(t: int, beta1: Any, beta2: Any) -> Any:
    """What both averages lack at the beginning, as one factor on the rate."""
    return sqrt(1 - beta2**t) / (1 - beta1**t)


def _adam(
    theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, beta1: Any, beta2: Any, eps: Any
) -> tuple[Tensor, State]:
    m, v = averages(gradient, state, beta1, beta2)
    return theta - lr * correction(t, beta1, beta2) * m / (sqrt(v) + eps), {"m": m, "v": v}


def _nadam(
    theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, beta1: Any, beta2: Any, eps: Any
) -> tuple[Tensor, State]:
    m, v = averages(gradient, state, beta1, beta2)
    ahead = beta1 * m + (1 - beta1) * gradient
    return theta - lr * correction(t, beta1, beta2) * ahead / (sqrt(v) + eps), {"m": m, "v": v}


def _amsgrad(
    theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, beta1: Any, beta2: Any, eps: Any
) -> tuple[Tensor, State]:
    m, v = averages(gradient, state, beta1, beta2)
    w = torch.maximum(state["w"], v)
    return theta - lr * correction(t, beta1, beta2) * m / (sqrt(w) + eps), {"m": m, "v": v, "w": w}


ADAM = Rule(
    name="Adam",
    paper="Kingma and Ba 2015",
    summary=_MOMENTS + "theta -= lr c m / (sqrt v + eps)",
    defaults={"lr": 1e-3, **_BETAS, "eps": 1e-8},
    space=_SPACE,
    version=1,
    init=begin(m=0, v=0),
    update=_adam,
)
NADAM = Rule(
    name="NAdam",
    paper="Dozat 2016",
    summary=_MOMENTS + "theta -= lr c (beta1 m + (1 - beta1) g) / (sqrt v + eps)",
    defaults={"lr": 1e-3, **_BETAS, "eps": 1e-7},
    space=_SPACE,
    version=1,
    init=begin(m=0, v=0),
    update=_nadam,
)
AMSGRAD = Rule(
    name="AMSGrad",
    paper="Reddi, Kale and Kumar 2018",
    summary=_MOMENTS + "w = max(w, v); theta -= lr c m / (sqrt w + eps)",
    defaults={"lr": 1e-2, **_BETAS, "eps": 1e-8},
    space=_SPACE,
    version=1,
    init=begin(m=0, v=0, w=0),
    update=_amsgrad,
)
