"""Distance."""

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity, norms


class Distance(SingleStepQuantity):
    r"""Distance from the start of each parameter, :math:`\|\theta_t - \theta_0\|`."""

    kind = Kind.PER_PARAMETER
    cost = Cost.ECONOMY

    def measure(self, step: Observation) -> dict[str, float]:
        """Return the distance of each parameter."""
        return norms(
            {name: theta.detach() - step.start[name].to(theta.device) for name, theta in step.parameters.items()}
        )
