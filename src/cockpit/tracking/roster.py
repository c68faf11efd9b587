"""Who is trained: the parameters of a model by name, and the learning rates of its optimizers."""

import sys
from collections.abc import Collection, Mapping, Sequence
from inspect import unwrap
from types import FrameType
from typing import Any

from torch import nn
from torch.optim import Optimizer

# What libraries call the optimizer, or the model, that they wrap.
WRAPPED = ("optimizer", "_optimizer", "optim", "base_optimizer")
WRAPPING = ("_orig_mod", "module")
LOOKS = 64  # questions after which the model is searched anew


class Roster:
    """Remembers the names of a model's parameters: walking through all modules at every step costs too much."""

    def __init__(self, model: nn.Module, optimizers: Sequence[Any]) -> None:
        self._model, self._optimizers = model, optimizers
        self._asked = 0
        self._sizes: list[int] = []
        self._named: list[tuple[str, nn.Parameter]] = []

    def trainable(self) -> dict[str, nn.Parameter]:
        """Parameters that are not frozen."""
        self._refresh()
        return {name: parameter for name, parameter in self._named if parameter.requires_grad}

    def learning_rates(self) -> list[tuple[float, list[str]]]:
        """Learning rate of each parameter group and the names of its parameters."""
        self._refresh()
        return learning_rates(self._optimizers, {id(p): name for name, p in self._named})

    def _refresh(self) -> None:
        sizes = [len(group["params"]) for optimizer in self._optimizers for group in optimizer.param_groups]
        self._asked += 1
        if sizes != self._sizes or self._asked > LOOKS:
            self._asked, self._sizes = 0, sizes
            self._named = list(self._model.named_parameters())


def learning_rates(optimizers: Sequence[Any], names: Mapping[int, str]) -> list[tuple[float, list[str]]]:
    """Learning rate of each parameter group and the names of its parameters; ``names`` by the parameter's id."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups if "lr" in group]
    return [(float(group["lr"]), [names[id(p)] for p in group["params"] if id(p) in names]) for group in groups]


def inner_optimizer(given: Any) -> Any:
    """The optimizer that takes the steps: a wrapper that torch's step hooks do not reach is looked into."""
    held = _hooked(given, {})
    return held[0] if len(held) == 1 else given


def _hooked(thing: Any, seen: dict[int, Any]) -> list[Any]:
    """The optimizers in it that have hooks: one that never called ``Optimizer.__init__`` has none."""
    if id(thing) in seen:
        return []
    seen[id(thing)] = thing
    if isinstance(thing, Optimizer) and "_optimizer_step_post_hooks" in vars(thing):
        return [thing]
    held = [getattr(thing, name, None) for name in WRAPPED]
    return [inner for wrapped in held if wrapped is not None for inner in _hooked(wrapped, seen)]


def inside(optimizer: Optimizer) -> list[Optimizer]:
    """Optimizers that it steps itself, as one that looks for sharpness does: often its own step is never called."""
    held: dict[int, Optimizer] = {}
    pending = [optimizer]
    while pending:
        for entry in vars(pending.pop()).values():
            if isinstance(entry, Optimizer) and id(entry) not in held and entry is not optimizer:
                held[id(entry)] = entry
                pending.append(entry)
    return [entry for entry in held.values() if "_optimizer_step_post_hooks" in vars(entry)]


def may_nest(optimizers: Sequence[Optimizer]) -> bool:
    """Whether a step may run inside another one: of an optimizer that is held, or of the class above."""
    above = {Optimizer, object}
    own = [
        {unwrap(vars(kind)["step"]) for kind in set(type(one).__mro__) - above if "step" in vars(kind)}
        for one in optimizers
    ]
    return len(optimizers) > 1 or max(map(len, own)) > 1


def nested(ours: Collection[int]) -> bool:
    """In a hook of an optimizer: whether its step runs inside another one of ours, by their ids."""
    frame: FrameType | None = sys._getframe(1)
    steps = 0
    while frame is not None:
        steps += frame.f_code is _STEP and id(frame.f_locals.get("self")) in ours
        frame = frame.f_back
    return steps > 1


_STEP = Optimizer.profile_hook_step(lambda self: None).__code__  # what torch puts around every step for its hooks


def inner_model(model: nn.Module) -> nn.Module:
    """The model inside of ``torch.compile`` and of torch's parallel wrappers."""
    while True:
        inner = next((m for name in WRAPPING if isinstance(m := model._modules.get(name), nn.Module)), None)
        if inner is None or len(model._modules) > 1 or next(model.parameters(recurse=False), None) is not None:
            return model
        model = inner
