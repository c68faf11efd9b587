"""Muon for matrices, AdamW for all other parameters: torch's Muon takes nothing but matrices."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from cockpit.optimizers.decoupled import ADAMW
from cockpit.optimizers.ruled import kind

_MATRICES = {"nesterov": True, "eps": 1e-7, "adjust_lr_fn": "match_rms_adamw"}  # so that one rate serves both


class MuonAndAdamW(Optimizer):
    """torch's Muon and the rule AdamW, in groups that are seen as those of one optimizer."""

    def __init__(self, params: Any, **hyperparameters: Any) -> None:
        super().__init__(params, hyperparameters)
        self.param_groups = [
            {**group, "params": members, "matrices": matrices, **(_MATRICES if matrices else {})}
            for group in self.param_groups
            for matrices in (True, False)
            if (members := [one for one in group["params"] if (one.ndim == 2) == matrices])
        ]
        self._parts: list[Optimizer] = []

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._parts:
            self._parts = list(self._made())
        for part in self._parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state."""
        super().load_state_dict(state_dict)
        self._parts = []  # they hold groups and states of before

    def _made(self) -> Any:
        """The two optimizers, on this one's groups and states."""
        for matrices in (True, False):
            groups = [group for group in self.param_groups if group["matrices"] == matrices]
            if groups:
                part: Optimizer = torch.optim.Muon(groups) if matrices else kind(ADAMW)(groups)
                part.state = self.state
                yield part
