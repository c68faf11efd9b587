"""TICDiag, TICTrace: Takeuchi's information criterion, gradient noise against curvature."""

from cockpit.core.errors import Undefined
from cockpit.core.kinds import Cost
from cockpit.core.schedule import Schedule
from cockpit.engine.needs import SQ_NORM, SUM_SQ, Need
from cockpit.engine.observation import Observation
from cockpit.engine.statistics.ratios import noise_to_curvature
from cockpit.quantities._base import Measured
from cockpit.quantities._curvature import CurvatureQuantity, mean


class _TIC(CurvatureQuantity):
    def __init__(
        self,
        track_schedule: Schedule | None = None,
        verbose: bool = False,
        curvature: str = "ggn",
        epsilon: float = 1e-7,
        samples: int = 1,
    ) -> None:
        super().__init__(track_schedule, verbose, curvature, samples)
        self._epsilon, self._noise = epsilon, noise_to_curvature(self._diagonal.name, epsilon)


class TICDiag(_TIC):
    r"""Takeuchi's information criterion from diagonals (after Thomas et al. 2020).

    :math:`\tfrac1B \sum_j [\sum_n g_{n,j}^2] / (h_j + \epsilon)` with the diagonal curvature :math:`h`.
    """

    cost = Cost.BUSINESS

    @property
    def needs(self) -> frozenset[Need]:
        """Second moments and the diagonal."""
        return frozenset({SUM_SQ, self._diagonal, self._noise})

    def measure(self, step: Observation) -> Measured:
        """Return the criterion."""
        noise = step.noise_to_curvature(self._noise, self._diagonal)
        return Measured(noise / step.batch_size, {"curvature": step.kind_of(self._diagonal)})


class TICTrace(_TIC):
    r"""Takeuchi's information criterion from traces (after Thomas et al. 2020).

    :math:`\tfrac1B \sum_n \|g_n\|^2 / (\mathrm{tr}\,H + \epsilon)`.
    """

    @property
    def needs(self) -> frozenset[Need]:
        """Norms and the diagonal."""
        return frozenset({SQ_NORM, self._diagonal, self._trace})

    def measure(self, step: Observation) -> Measured:
        """Return the criterion."""
        traces = step.traces(self._trace)
        norms = step.sum_of_squares()
        trace = sum(mean(traces[name]) for name in step.names)  # of the same parameters as the norms
        if trace + self._epsilon == 0:
            raise Undefined("the trace is zero")
        return Measured(norms / step.batch_size / (trace + self._epsilon), {"curvature": step.kind_of(self._diagonal)})
