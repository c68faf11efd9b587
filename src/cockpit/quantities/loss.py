"""Loss."""

from cockpit.core.kinds import Cost
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity


class Loss(SingleStepQuantity):
    r"""The loss that is backpropagated, :math:`L`; recorded as it is, also if it is not finite."""

    cost = Cost.ECONOMY
    deferred = True

    def measure(self, step: Observation) -> float:
        """Return L."""
        return step.loss
