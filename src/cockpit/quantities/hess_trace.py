"""HessTrace."""

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured
from cockpit.quantities._curvature import CurvatureQuantity, mean


class HessTrace(CurvatureQuantity):
    r"""Trace of the diagonal curvature of each parameter, :math:`\sum_j h_j` (after Yao et al. 2020)."""

    kind = Kind.PER_PARAMETER
    cost = Cost.BUSINESS

    def measure(self, step: Observation) -> Measured:
        """Return the trace of each parameter, with standard errors where it is an estimate."""
        traces = step.traces(self._trace)
        value = {name: mean(estimates) for name, estimates in traces.items()}
        details: dict[str, object] = {"curvature": step.kind_of(self._diagonal), "total": "sum"}
        if any(len(estimates) > 1 for estimates in traces.values()):
            error = {name: float(e.std(ddof=1) / len(e) ** 0.5) for name, e in traces.items()}
            details["standard_error"] = error
        return Measured(value, details)
