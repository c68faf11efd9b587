"""EarlyStopping."""

from cockpit.engine.observation import Observation
from cockpit.quantities._variance import SignalToNoise


class EarlyStopping(SignalToNoise):
    r"""Evidence that only noise is left, without a validation set (Mahsereci et al. 2017): stop when positive.

    :math:`1 - \tfrac{B}{D'} \sum_j g_j^2 / \mathrm{var}_j` over the D' elements whose sample variance is positive.
    ``epsilon=1e-5`` is added to every variance and averages over all elements, as the original does.
    """

    correction = 1

    def measure(self, step: Observation) -> float:
        """Return the criterion."""
        return 1 - step.batch_size * self.mean_ratio(step)
