"""Distance."""

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.needs import DISTANCE, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity


class Distance(SingleStepQuantity):
    r"""Distance from the start of each parameter, :math:`\|\theta_t - \theta_0\|`."""

    kind = Kind.PER_PARAMETER
    cost = Cost.ECONOMY
    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """The distance."""
        return frozenset({DISTANCE})

    def measure(self, step: Observation) -> dict[str, float]:
        """Return the distance of each parameter."""
        return step.norms(DISTANCE)
