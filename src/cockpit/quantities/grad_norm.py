"""GradNorm."""

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity, norms


class GradNorm(SingleStepQuantity):
    r"""Norm of the mini-batch gradient of each parameter, :math:`\|g\|`, before clipping and without loss scale."""

    kind = Kind.PER_PARAMETER
    cost = Cost.ECONOMY

    def measure(self, step: Observation) -> dict[str, float]:
        """Return the gradient norm of each parameter."""
        step.loss  # noqa: B018 - undefined without a backward pass
        return norms(step.gradient)
