"""A rule as one of torch's optimizers: for any parameters, in groups, resumed, its rates set by any scheduler."""

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ClassVar

import torch
from torch.optim import Optimizer

from cockpit.core.errors import CockpitError, unknown
from cockpit.optimizers import RULES, find
from cockpit.optimizers.each import Each
from cockpit.optimizers.rule import Rule

# From where to where a hyperparameter makes sense, the ends included, and what to say.
_SHARE = (0.0, 1.0, "between 0 and 1")
_BELOW_1 = (0.0, math.nextafter(1.0, 0.0), "from 0 to below 1")
_AT_LEAST_0 = (0.0, math.inf, "that is 0 or more")
_ABOVE_0 = (math.ulp(0.0), math.inf, "above 0")
LIMITS: dict[str, tuple[float, float, str]] = {
    "lr": _AT_LEAST_0,
    "eps": _AT_LEAST_0,
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


class RuleOptimizer(Optimizer):
    """One of :data:`cockpit.optimizers.RULES` on tensors of any shape."""

    rule: ClassVar[Rule]

    def __init__(self, params: Any, **hyperparameters: Any) -> None:
        for name, value in hyperparameters.items():
            check(self.rule, name, value)
        super().__init__(params, {**self.rule.defaults, **hyperparameters})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                self._update(group["params"], {name: Each([float(group[name])]) for name in self.rule.defaults})
        return loss

    def _update(self, parameters: Iterable[torch.Tensor], settings: dict[str, Each]) -> None:
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.is_sparse:
                raise RuntimeError(f"{self.rule.name} takes dense gradients; leave out sparse=True")
            state = self.state[parameter]
            if not state:
                state.update(self.rule.init(parameter.detach()), step=0)
            t = state["step"] + 1
            kept = {name: value for name, value in state.items() if name != "step"}
            moved, after = self.rule.update(parameter.detach(), gradient, kept, t, **settings)
            parameter.copy_(moved)
            state.update(after, step=t)


def build(parameters: Any, rule: str, **hyperparameters: Any) -> RuleOptimizer:
    """Make the optimizer of a rule by its name: ``build(model.parameters(), "NAdam", lr=1e-3)``."""
    known = find(rule)
    if known is None:
        raise unknown("rule", rule, RULES)
    return _kind(known.name)(parameters, **hyperparameters)


def check(rule: Rule, name: str, value: Any) -> None:
    """Refuse a hyperparameter that a rule does not have, or a value that makes no sense."""
    if name not in rule.defaults:
        raise unknown(f"hyperparameter of {rule.name}", name, rule.defaults)
    low, high, said = LIMITS[name]
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high or (name == "k" and value != int(value)):
        raise CockpitError(f"{rule.name}: {name} is {value!r}; give a number {said}")


@cache
def _kind(name: str) -> type[RuleOptimizer]:
    """A class of the rule's name, as a run's description shows it."""
    return type(name, (RuleOptimizer,), {"rule": RULES[name], "__module__": __name__})
