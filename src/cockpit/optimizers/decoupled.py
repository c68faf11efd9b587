"""Rules of today, whose weights decay by themselves: AdamW, Lion, Schedule-Free AdamW."""

from typing import Any

import torch
from torch import Tensor

from cockpit.optimizers.each import sqrt
from cockpit.optimizers.rule import Rule, State, averages, begin
from cockpit.optimizers.spaces import MOMENTS, RATE

_DECAY = {"weight_decay": {"log": [1e-4, 1.0]}}
_SPACE = {**RATE, **MOMENTS, **_DECAY}


def _adamw(
    theta: Tensor,
    gradient: Tensor,
    state: State,
    t: int,
    *,
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: Any,
    weight_decay: Any,
) -> tuple[Tensor, State]:
    m, v = averages(gradient, state, beta1, beta2)
    root = sqrt(v) / sqrt(1 - beta2**t) + eps
    return (1 - lr * weight_decay) * theta - lr / (1 - beta1**t) * m / root, {"m": m, "v": v}


def _lion(
    theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, beta1: Any, beta2: Any, weight_decay: Any
) -> tuple[Tensor, State]:
    direction = torch.sign(beta1 * state["m"] + (1 - beta1) * gradient)
    m = beta2 * state["m"] + (1 - beta2) * gradient
    return (1 - lr * weight_decay) * theta - lr * direction, {"m": m}


def _schedule_free(
    theta: Tensor,
    gradient: Tensor,
    state: State,
    t: int,
    *,
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: Any,
    weight_decay: Any,
) -> tuple[Tensor, State]:
    v = beta2 * state["v"] + (1 - beta2) * gradient * gradient
    step = gradient / (sqrt(v) / sqrt(1 - beta2**t) + eps) + weight_decay * theta
    z = state["z"] - lr * step
    x = (1 - 1 / t) * state["x"] + 1 / t * z
    return (1 - beta1) * z + beta1 * x, {"v": v, "x": x, "z": z}


def _at_start(theta: Tensor) -> State:
    return {"v": torch.zeros_like(theta), "x": theta.clone(), "z": theta.clone()}


ADAMW = Rule(
    name="AdamW",
    paper="Loshchilov and Hutter 2019",
    summary=("m, v as in Adam; m', v' bias-corrected; theta -= lr (m' / (sqrt v' + eps) + weight_decay theta)"),
    defaults={"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 1e-2},
    space=_SPACE,
    version=1,
    init=begin(m=0, v=0),
    update=_adamw,
)
LION = Rule(
    name="Lion",
    paper="Chen, Liang, Huang, Real, Wang, Liu, Pham, Dong, Luong, Hsieh, Lu and Le 2023",
    summary=("theta -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay theta); then m = beta2 m + (1 - beta2) g"),
    defaults={"lr": 1e-4, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0},
    space={"lr": {"log": [1e-5, 0.1]}, **MOMENTS, **_DECAY},
    version=1,
    init=begin(m=0),
    update=_lion,
)
SCHEDULE_FREE = Rule(
    name="ScheduleFreeAdamW",
    paper="Defazio, Yang, Mehta, Mishchenko, Khaled and Cutkosky 2024",
    summary=(
        "v as in Adam; z -= lr (g / (sqrt v' + eps) + weight_decay y); x += (z - x) / t; gradients are taken at "
        "y = (1 - beta1) z + beta1 x, and x is judged"
    ),
    defaults={"lr": 2.5e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0},
    space=_SPACE,
    version=1,
    init=_at_start,
    update=_schedule_free,
    judged="x",
)
