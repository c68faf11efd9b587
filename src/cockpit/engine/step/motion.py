"""The optimizer's step: the parameters before it, and the difference it made."""

from collections.abc import Mapping

import torch
from torch import Tensor


class Motion:
    """Copies of the parameters from just before the step until it was looked at."""

    def __init__(self) -> None:
        self._before: dict[str, Tensor] = {}

    @property
    def marked(self) -> bool:
        """Whether a step is under way."""
        return bool(self._before)

    def mark(self, parameters: Mapping[str, Tensor]) -> None:
        """The optimizer is about to step."""
        self._before = {name: theta.detach().clone() for name, theta in parameters.items()}

    def take(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The optimizer has stepped: the update, in the place of the copies."""
        before, self._before = self._before, {}
        moved = {name: (parameters[name].detach(), start) for name, start in before.items() if name in parameters}
        return {name: torch.sub(now, start, out=start) for name, (now, start) in moved.items()}

    def forget(self) -> None:
        """The step was never taken."""
        self._before = {}
