"""Time."""

from cockpit.core.kinds import Cost
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured, SingleStepQuantity


class Time(SingleStepQuantity):
    """Seconds since the run began; the detail ``tracking`` is what watching this step has cost so far."""

    cost = Cost.ECONOMY
    deferred = True

    def measure(self, step: Observation) -> Measured:
        """Return the elapsed time."""
        return Measured(step.elapsed, {"tracking": step.tracking})
