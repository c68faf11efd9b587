"""Parameters."""

import torch

from cockpit.core.kinds import Kind
from cockpit.core.schedule import Schedule
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity


class Parameters(SingleStepQuantity):
    """Norm, mean, standard deviation, minimum and maximum of each parameter; ``raw=True`` adds the values."""

    kind = Kind.PER_PARAMETER

    def __init__(self, track_schedule: Schedule | None = None, verbose: bool = False, raw: bool = False) -> None:
        super().__init__(track_schedule, verbose)
        self._raw = raw

    def measure(self, step: Observation) -> dict[str, dict[str, object]]:
        """Return a summary of each parameter."""
        return {name: self._summary(theta.detach()) for name, theta in step.parameters.items()}

    def _summary(self, theta: torch.Tensor) -> dict[str, object]:
        values = theta.double()
        summary: dict[str, object] = {
            "norm": float(values.norm()),
            "mean": float(values.mean()),
            "std": float(values.std(correction=0)),
            "min": float(values.min()),
            "max": float(values.max()),
        }
        if self._raw:
            summary["raw"] = theta.cpu().numpy().copy()
        return summary
