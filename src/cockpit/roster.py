"""Who is trained: the parameters of a model by name, and the learning rates of its optimizers."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

LOOKS = 64  # questions after which the model is searched anew


class Roster:
    """Remembers the names of a model's parameters: walking through all modules at every step costs too much."""

    def __init__(self, model: nn.Module, optimizers: Sequence[Any]) -> None:
        self._model, self._optimizers = model, optimizers
        self._asked = 0
        self._sizes: list[int] = []
        self._named: list[tuple[str, nn.Parameter]] = []
        self._groups: list[tuple[Any, list[str]]] = []

    def trainable(self) -> dict[str, nn.Parameter]:
        """Parameters that are not frozen."""
        self._refresh()
        return {name: parameter for name, parameter in self._named if parameter.requires_grad}

    def learning_rates(self) -> list[tuple[float, list[str]]]:
        """Learning rate of each parameter group and the names of its parameters."""
        self._refresh()
        return [(float(group["lr"]), names) for group, names in self._groups if "lr" in group]

    def _refresh(self) -> None:
        sizes = [len(group["params"]) for optimizer in self._optimizers for group in optimizer.param_groups]
        self._asked += 1
        if sizes != self._sizes or self._asked > LOOKS:
            self._asked, self._sizes = 0, sizes
            self._named = list(self._model.named_parameters())
            self._groups = grouped(self._optimizers, {id(p): name for name, p in self._named})


def grouped(optimizers: Sequence[Any], names: Mapping[int, str]) -> list[tuple[Any, list[str]]]:
    """Each parameter group and the names of its parameters; ``names`` by the parameter's id."""
    return [
        (group, [names[id(p)] for p in group["params"] if id(p) in names])
        for optimizer in optimizers
        for group in optimizer.param_groups
    ]


def learning_rates(optimizers: Sequence[Any], names: Mapping[int, str]) -> list[tuple[float, list[str]]]:
    """Learning rate of each parameter group and the names of its parameters."""
    return [(float(group["lr"]), named) for group, named in grouped(optimizers, names) if "lr" in group]
