"""HessTrace."""

import torch

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured
from cockpit.quantities._curvature import CurvatureQuantity


class HessTrace(CurvatureQuantity):
    r"""Trace of the diagonal curvature of each parameter, :math:`\sum_j h_j` (after Yao et al. 2020)."""

    kind = Kind.PER_PARAMETER
    cost = Cost.BUSINESS

    def measure(self, step: Observation) -> Measured:
        """Return the trace of each parameter, with standard errors where it is an estimate."""
        estimates = self.estimates(step)
        traces = {name: torch.stack([estimate[name].double().sum() for estimate in estimates]) for name in estimates[0]}
        value = {name: float(traces[name].mean()) if name in traces else 0.0 for name in step.parameters}
        details: dict[str, object] = {"curvature": self.curvature, "total": "sum"}
        if len(estimates) > 1:
            error = {name: float(t.std() / len(estimates) ** 0.5) for name, t in traces.items()}
            details["standard_error"] = error
        return Measured(value, details)
