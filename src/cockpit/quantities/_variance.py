"""Signal against noise of each gradient element, for EarlyStopping and MeanGSNR."""

from typing import ClassVar

from cockpit.core.errors import Undefined
from cockpit.core.schedule import Schedule
from cockpit.engine.needs import DOT_GRAD, SUM_SQ, Need
from cockpit.engine.observation import Observation
from cockpit.engine.statistics.ratios import signal_to_noise
from cockpit.quantities._base import SingleStepQuantity


class SignalToNoise(SingleStepQuantity):
    """A quantity of the ratios g_j^2 / var_j.

    ``epsilon`` is added to every variance, and all elements count; the original takes 1e-5. With 0, only elements that
    vary over the batch count.
    """

    correction: ClassVar[int]  # the variance is divided by B - correction
    deferred = True

    def __init__(self, track_schedule: Schedule | None = None, verbose: bool = False, epsilon: float = 0.0) -> None:
        super().__init__(track_schedule, verbose)
        self._ratios = signal_to_noise(self.correction, epsilon)

    @property
    def needs(self) -> frozenset[Need]:
        """Second moments of each element."""
        return frozenset({SUM_SQ, DOT_GRAD, self._ratios})

    def mean_ratio(self, step: Observation) -> float:
        """Return the mean of the ratios."""
        ratios, count = step.signal_to_noise(self._ratios)
        if not count:
            raise Undefined("no gradient element varies over the batch")
        return ratios / count
