"""RAdam and AdaBelief: no adaptive rate until the variance of the second moment is tractable."""

from typing import Any

from torch import Tensor

from cockpit.optimizers.each import sqrt, where
from cockpit.optimizers.rule import Rule, State, averages, begin
from cockpit.optimizers.spaces import MOMENTS, RATE

LEAST = 5  # the study's; the paper has > 4
_BETAS = {"beta1": 0.9, "beta2": 0.999}
_SPACE = {**RATE, **MOMENTS}
_STEP = (
    "rho = r - 2 t beta2^t / (1 - beta2^t), r = 2 / (1 - beta2) - 1; m', v' bias-corrected; theta -= lr m', and where "
    "rho >= 5 times sqrt((rho - 4) (rho - 2) r / ((r - 4) (r - 2) rho)) / (sqrt v' + eps)"
)


def _step(m: Tensor, v: Tensor, t: int, beta1: Any, beta2: Any, eps: Any) -> Tensor:
    """What the rate is multiplied with."""
    most = 2 / (1 - beta2) - 1
    rho = most - 2 * t * beta2**t / (1 - beta2**t)
    known = rho >= LEAST
    factor = sqrt(where(known, (rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho), 0.0))
    mean = m / (1 - beta1**t)
    rectified: Tensor = where(known, factor * mean / (sqrt(v / (1 - beta2**t)) + eps), mean)
    return rectified


def _radam(
    theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, beta1: Any, beta2: Any, eps: Any
) -> tuple[Tensor, State]:
    m, v = averages(gradient, state, beta1, beta2)
    return theta - lr * _step(m, v, t, beta1, beta2, eps), {"m": m, "v": v}


def _adabelief(
    theta: Tensor, gradient: Tensor, state: State, t: int, *, lr: Any, beta1: Any, beta2: Any, eps: Any
) -> tuple[Tensor, State]:
    m = beta1 * state["m"] + (1 - beta1) * gradient
    surprise = gradient - m
    v = beta2 * state["v"] + (1 - beta2) * surprise * surprise + eps
    return theta - lr * _step(m, v, t, beta1, beta2, eps), {"m": m, "v": v}


RADAM = Rule(
    name="RAdam",
    paper="Liu, Jiang, He, Chen, Liu, Gao and Han 2020",
    summary=f"m, v as in Adam; {_STEP}",
    defaults={"lr": 1e-3, **_BETAS, "eps": 1e-7},
    space=_SPACE,
    version=1,
    init=begin(m=0, v=0),
    update=_radam,
)
ADABELIEF = Rule(
    name="AdaBelief",
    paper="Zhuang, Tang, Ding, Tatikonda, Dvornek, Papademetris and Duncan 2020",
    summary=f"m as in Adam; v = beta2 v + (1 - beta2) (g - m)^2 + eps; {_STEP}",
    defaults={"lr": 1e-3, **_BETAS, "eps": 1e-14},
    space=_SPACE,
    version=1,
    init=begin(m=0, v=0),
    update=_adabelief,
)
