"""EarlyStopping."""

from cockpit.core.errors import Undefined
from cockpit.core.schedule import Schedule
from cockpit.engine.needs import DOT_GRAD, SUM_SQ, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity
from cockpit.quantities._variance import moments, ratio


class EarlyStopping(SingleStepQuantity):
    r"""Evidence to stop without a validation set (Mahsereci et al. 2017): stop when positive.

    :math:`1 - \tfrac{B}{D'} \sum_j g_j^2 / \mathrm{var}_j` over the D' elements whose sample variance is positive.
    ``epsilon=1e-5`` gives the original's number: added to every variance, averaged over all elements.
    """

    def __init__(self, track_schedule: Schedule | None = None, verbose: bool = False, epsilon: float = 0.0) -> None:
        super().__init__(track_schedule, verbose)
        self._epsilon = epsilon

    @property
    def needs(self) -> frozenset[Need]:
        """Elementwise second moments."""
        return frozenset({SUM_SQ, DOT_GRAD})

    def measure(self, step: Observation) -> float:
        """Return the criterion."""
        if step.batch_size < 2:
            raise Undefined("a batch of one sample has no variance")
        ratios = ratio(*moments(step, correction=1), self._epsilon)
        if not len(ratios):
            raise Undefined("no gradient element varies over the batch")
        return 1 - step.batch_size * float(ratios.mean())
