"""Loss."""

from cockpit.core.kinds import Cost
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity


class Loss(SingleStepQuantity):
    r"""The number that is backpropagated, :math:`L`; not finite is recorded as such."""

    cost = Cost.ECONOMY
    deferred = True

    def measure(self, step: Observation) -> float:
        """Return L."""
        return step.loss
