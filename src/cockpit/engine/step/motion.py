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

    def mark(self, parameters: Mapping[str, Tensor], on_host: bool = False) -> None:
        """The optimizer is about to step; ``on_host``: the device has no room for a copy."""
        thetas = [theta.detach() for theta in parameters.values()]
        apart = on_host or not thetas  # torch takes no empty list
        copies = [theta.to("cpu", copy=True) for theta in thetas] if apart else torch._foreach_mul(thetas, 1.0)
        self._before = dict(zip(parameters, copies, strict=True))

    def take(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The optimizer has stepped: the update, in the place of the copies."""
        before, self._before = self._before, {}
        before = {name: start for name, start in before.items() if name in parameters}
        now, starts = [parameters[name].detach() for name in before], list(before.values())
        if any(theta.device != start.device for theta, start in zip(now, starts, strict=True)):
            moved = [(theta - start.to(theta.device)).cpu() for theta, start in zip(now, starts, strict=True)]
            return dict(zip(before, moved, strict=True))
        if starts:
            torch._foreach_sub_(starts, now)
            torch._foreach_neg_(starts)
        return before

    def forget(self) -> None:
        """The step was never taken."""
        self._before = {}
