"""Ways of our own are tried against autograd once for each structure of the graph, then trusted."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

AGREES = {torch.float64: 1e-8, torch.float32: 1e-2}  # single precision may multiply with ten bits on a GPU
MAX_REMEMBERED = 128

Pair = tuple[Tensor | None, Tensor | None]


@dataclass
class Trust:
    """What was tried, and whether it was right."""

    _known: dict[Hashable, bool] = field(default_factory=dict)

    def __call__(self, key: Hashable, trial: Callable[[], bool | None]) -> bool:
        """Whether the way with this name is right; a trial that tells nothing (None) is repeated next time."""
        if key not in self._known:
            found = trial()
            if found is None:
                return False
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return self._known[key]


def agree(pairs: Iterable[Pair]) -> bool | None:
    """Whether two ways gave the same, autograd's first; None where its numbers are not finite."""
    for slow, quick in pairs:
        if slow is None or quick is None:
            if slow is not quick:
                return False
            continue
        if slow.shape != quick.shape:
            return False
        off, size = float((slow - quick).norm()), float(slow.norm())
        if not size < float("inf"):
            return None
        if not off <= AGREES.get(slow.dtype, 0.1) * size:
            return False
    return True
