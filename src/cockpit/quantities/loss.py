"""Loss."""

from cockpit.core.kinds import Cost
from cockpit.engine.block import Block
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Series, SingleStepQuantity


class Loss(SingleStepQuantity):
    r"""The number that is backpropagated, :math:`L`; not finite is recorded as such."""

    cost = Cost.ECONOMY
    deferred = True

    def measure(self, step: Observation) -> float:
        """Return L."""
        return step.loss

    def measure_together(self, block: Block) -> Series:
        """The same, of several steps."""
        return Series(block.loss.tolist())
