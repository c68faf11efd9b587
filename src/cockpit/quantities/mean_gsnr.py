"""MeanGSNR."""

from cockpit.engine.observation import Observation
from cockpit.quantities._variance import SignalToNoise


class MeanGSNR(SignalToNoise):
    r"""Mean gradient signal-to-noise ratio (Liu et al. 2020).

    Mean over the elements with positive variance of :math:`g_j^2 / \mathrm{var}_j`, the variance divided by B.
    ``epsilon=1e-5`` is added to every variance and averages over all elements, as the original does.
    """

    correction = 0

    def measure(self, step: Observation) -> float:
        """Return the mean ratio."""
        return self.mean_ratio(step)
