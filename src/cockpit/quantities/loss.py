"""Loss."""

from cockpit.core.kinds import Cost
from cockpit.engine.block import Block
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Series, SingleStepQuantity


class Loss(SingleStepQuantity):
    r"""The loss that is backpropagated, :math:`L`; recorded as it is, also if it is not finite."""

    cost = Cost.ECONOMY
    deferred = True

    def measure(self, step: Observation) -> float:
        """Return L."""
        return step.loss

    def measure_together(self, block: Block) -> Series:
        """Return L of each step of a block."""
        return Series(block.loss.tolist())
