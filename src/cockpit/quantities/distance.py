"""Distance."""

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.block import Block
from cockpit.engine.needs import DISTANCE, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Series, SingleStepQuantity


class Distance(SingleStepQuantity):
    r"""Distance of each parameter from its start, :math:`\|\theta_t - \theta_0\|`."""

    kind = Kind.PER_PARAMETER
    cost = Cost.ECONOMY
    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """The distance from the start."""
        return frozenset({DISTANCE})

    def measure(self, step: Observation) -> dict[str, float]:
        """Return the distance of each parameter."""
        return step.norms(DISTANCE)

    def measure_together(self, block: Block) -> Series:
        """Return the distances of each step of a block."""
        return Series(block.norms(DISTANCE))
