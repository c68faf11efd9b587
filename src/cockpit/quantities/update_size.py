"""UpdateSize."""

from cockpit.core.kinds import Cost, Kind
from cockpit.engine.needs import UPDATE, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Moment, TwoStepQuantity


class UpdateSize(TwoStepQuantity):
    r"""Length of the optimizer's step for each parameter, :math:`\|\theta_{t+1} - \theta_t\|`, stored under t."""

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
