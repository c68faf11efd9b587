"""GradNorm."""

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.block import Block
from cockpit.engine.needs import GRADIENT, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Series, SingleStepQuantity


class GradNorm(SingleStepQuantity):
    r"""Norm of the mini-batch gradient of each parameter, :math:`\|g\|`, before clipping and without loss scale."""

    kind = Kind.PER_PARAMETER
    cost = Cost.ECONOMY
    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """The gradient."""
        return frozenset({GRADIENT})

    def measure(self, step: Observation) -> dict[str, float]:
        """Return the gradient norm of each parameter."""
        return step.norms(GRADIENT)

    def measure_together(self, block: Block) -> Series:
        """Return the gradient norms of each step of a block."""
        return Series(block.norms(GRADIENT))
