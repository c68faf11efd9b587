"""UpdateSize."""

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.block import Block
from cockpit.engine.needs import UPDATE, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Moment, Series, TwoStepQuantity


class UpdateSize(TwoStepQuantity):
    r"""Length of the optimizer's step of each parameter, :math:`\|\theta_{t+1} - \theta_t\|`, stored at step t."""

    kind = Kind.PER_PARAMETER
    cost = Cost.ECONOMY
    moment = Moment.UPDATE
    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """The update."""
        return frozenset({UPDATE})

    def measure(self, step: Observation) -> dict[str, float]:
        """Return the update size of each parameter."""
        return step.norms(UPDATE)

    def measure_together(self, block: Block) -> Series:
        """Return the update sizes of each step of a block."""
        return Series(block.norms(UPDATE))
