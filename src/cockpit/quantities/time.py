"""Time."""

from cockpit.core.kinds import Cost
from cockpit.engine.block import Block
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured, Series, SingleStepQuantity


class Time(SingleStepQuantity):
    """Seconds since the run began; the detail ``tracking``: seconds that watching this step has cost so far."""

    cost = Cost.ECONOMY
    deferred = True

    def measure(self, step: Observation) -> Measured:
        """Return the elapsed time."""
        return Measured(step.elapsed, {"tracking": step.tracking})

    def measure_together(self, block: Block) -> Series:
        """Return the elapsed time of each step of a block."""
        return Series([step.elapsed for step in block.steps], [{"tracking": step.tracking} for step in block.steps])
