"""Optimizers of torch's kind by their names, and which values of their hyperparameters make sense."""

import math
from typing import Any

from torch.optim import Optimizer

from cockpit.core.errors import CockpitError, unknown
from cockpit.optimizers import KNOWN, find
from cockpit.optimizers.muon import MuonAndAdamW
from cockpit.optimizers.rule import Known, Rule
from cockpit.optimizers.ruled import kind

# From where to where a hyperparameter makes sense, the ends included, and what to say.
_SHARE = (0.0, 1.0, "between 0 and 1")
_BELOW_1 = (0.0, math.nextafter(1.0, 0.0), "from 0 to below 1")
_AT_LEAST_0 = (0.0, math.inf, "that is 0 or more")
_ABOVE_0 = (math.ulp(0.0), math.inf, "above 0")
LIMITS: dict[str, tuple[float, float, str]] = {
    "lr": _AT_LEAST_0,
    "eps": _AT_LEAST_0,
    "weight_decay": _AT_LEAST_0,
    "momentum": _SHARE,
    "alpha": _SHARE,
    "rho": _SHARE,
    "slow": _SHARE,
    "beta1": _BELOW_1,
    "beta2": _BELOW_1,
    "final_lr": _ABOVE_0,
    "gamma": _ABOVE_0,
    "k": (1.0, math.inf, "that is whole and 1 or more"),
}


def build(parameters: Any, rule: str, **hyperparameters: Any) -> Optimizer:
    """Make the optimizer of a rule by its name: ``build(model.parameters(), "NAdam", lr=1e-3)``."""
    known = find(rule)
    if known is None:
        raise unknown("rule", rule, KNOWN)
    for name, value in hyperparameters.items():
        check(known, name, value)
    settings = {**known.defaults, **hyperparameters}
    return kind(known)(parameters, **settings) if isinstance(known, Rule) else MuonAndAdamW(parameters, **settings)


def check(rule: Known, name: str, value: Any) -> None:
    """Refuse a hyperparameter that a rule does not have, or a value that makes no sense."""
    if name not in rule.defaults:
        raise unknown(f"hyperparameter of {rule.name}", name, rule.defaults)
    low, high, said = LIMITS[name]
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high or (name == "k" and value != int(value)):
        raise CockpitError(f"{rule.name}: {name} is {value!r}; give a number {said}")
