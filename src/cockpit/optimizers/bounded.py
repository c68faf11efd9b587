"""AdaBound and AMSBound: Adam's rates, kept between bounds that close around a final rate.

The final rate is not scheduled: the bounds stay where they are while the rate falls.
"""

from typing import Any

import torch
from torch import Tensor

from cockpit.optimizers.adam import correction
from cockpit.optimizers.each import sqrt
from cockpit.optimizers.rule import Rule, State, averages, begin
from cockpit.optimizers.spaces import BOUND

_DEFAULTS = {"lr": 1e-3, "final_lr": 0.1, "beta1": 0.9, "beta2": 0.999, "gamma": 1e-3, "eps": 1e-8}
_BOUNDS = "final_lr (1 - 1 / (gamma t + 1)), final_lr (1 + 1 / (gamma t))"


def _between(rates: Tensor, t: int, final_lr: Any, gamma: Any) -> Tensor:
    low, high = final_lr * (1 - 1 / (gamma * t + 1)), final_lr * (1 + 1 / (gamma * t))
    return torch.minimum(torch.maximum(rates, low * torch.ones_like(rates)), high * torch.ones_like(rates))


def _adabound(
    theta: Tensor,
    gradient: Tensor,
    state: State,
    t: int,
    *,
    lr: Any,
    final_lr: Any,
    beta1: Any,
    beta2: Any,
    gamma: Any,
    eps: Any,
) -> tuple[Tensor, State]:
    m, v = averages(gradient, state, beta1, beta2)
    rates = lr * correction(t, beta1, beta2) / (sqrt(v) + eps)
    return theta - _between(rates, t, final_lr, gamma) * m, {"m": m, "v": v}


def _amsbound(
    theta: Tensor,
    gradient: Tensor,
    state: State,
    t: int,
    *,
    lr: Any,
    final_lr: Any,
    beta1: Any,
    beta2: Any,
    gamma: Any,
    eps: Any,
) -> tuple[Tensor, State]:
    m, v = averages(gradient, state, beta1, beta2)
    w = torch.maximum(state["w"], v)
    rates = lr * correction(t, beta1, beta2) / (sqrt(w) + eps)
    return theta - _between(rates, t, final_lr, gamma) * m, {"m": m, "v": v, "w": w}


ADABOUND = Rule(
    name="AdaBound",
    paper="Luo, Xiong, Liu and Sun 2019",
    summary=f"m, v, c as in Adam; theta -= clip(lr c / (sqrt v + eps), {_BOUNDS}) m",
    defaults=_DEFAULTS,
    space=BOUND,
    version=1,
    init=begin(m=0, v=0),
    update=_adabound,
)
AMSBOUND = Rule(
    name="AMSBound",
    paper="Luo, Xiong, Liu and Sun 2019",
    summary=f"m, v, c as in Adam; w = max(w, v); theta -= clip(lr c / (sqrt w + eps), {_BOUNDS}) m",
    defaults=_DEFAULTS,
    space=BOUND,
    version=1,
    init=begin(m=0, v=0, w=0),
    update=_amsbound,
)
