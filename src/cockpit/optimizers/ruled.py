"""A rule as one of torch's optimizers: for any parameters, in groups, resumed, its rates set by any scheduler."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ClassVar

import torch
from torch.optim import Optimizer

from cockpit.optimizers.each import Each
from cockpit.optimizers.rule import Rule


class RuleOptimizer(Optimizer):
    """One of :data:`cockpit.optimizers.RULES` on tensors of any shape."""

    rule: ClassVar[Rule]

    def __init__(self, params: Any, **hyperparameters: Any) -> None:
        super().__init__(params, {**self.rule.defaults, **hyperparameters})

    def train(self) -> None:
        """Bring the parameters to where gradients are taken; a rule that is judged elsewhere begins here."""
        self._switch(True)

    def eval(self) -> None:
        """Bring the parameters to where the model is judged."""
        self._switch(False)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                if not group.get("train_mode", True):
                    raise RuntimeError(f"{self.rule.name} was told to eval(); call train() before the next step")
                self._update(group["params"], {name: Each([float(group[name])]) for name in self.rule.defaults})
        return loss

    def _switch(self, train: bool) -> None:
        """Change places with what is judged; which one is there is kept in the groups, and so in a state."""
        if self.rule.judged is None:
            return
        for group in self.param_groups:
            if group.get("train_mode", True) == train:
                continue
            group["train_mode"] = train
            for parameter in group["params"]:
                if state := self.state[parameter]:
                    there = parameter.detach().clone()
                    parameter.detach().copy_(state[self.rule.judged])
                    state[self.rule.judged] = there

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


@cache
def kind(rule: Rule) -> type[RuleOptimizer]:
    """A class of the rule's name, as a run's description shows it."""
    return type(rule.name, (RuleOptimizer,), {"rule": rule, "__module__": __name__})
