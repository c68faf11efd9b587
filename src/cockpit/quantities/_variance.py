"""Signal against noise, element by element: what EarlyStopping and MeanGSNR share."""

import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.core.schedule import Schedule
from cockpit.engine.needs import DOT_GRAD, SUM_SQ, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import SingleStepQuantity


class SignalToNoise(SingleStepQuantity):
    """A quantity of the ratios g_j^2 / var_j.

    ``epsilon`` is added to every variance, and all elements count, as in the original (1e-5); 0: only the elements
    that vary over the batch count.
    """

    def __init__(self, track_schedule: Schedule | None = None, verbose: bool = False, epsilon: float = 0.0) -> None:
        super().__init__(track_schedule, verbose)
        self._epsilon = epsilon

    @property
    def needs(self) -> frozenset[Need]:
        """Elementwise second moments."""
        return frozenset({SUM_SQ, DOT_GRAD})

    def mean_ratio(self, step: Observation, correction: int) -> float:
        """Mean of the ratios, with the variance divided by B - correction."""
        if step.batch_size < 2:
            raise Undefined("a batch of one sample has no variance")
        ratios = ratio(*moments(step, correction), self._epsilon)
        if not len(ratios):
            raise Undefined("no gradient element varies over the batch")
        return float(ratios.mean())


def moments(step: Observation, correction: int) -> tuple[Tensor, Tensor]:
    """Return g_j and the variance of g_n,j over the batch (divided by B - correction), all parameters in one vector.

    A variance below rounding is zero: the difference of two equal numbers says nothing.
    """
    size, mean = step.batch_size, step.mean_gradient()
    means, variances = [], []
    for name, squares in step.sum_sq().items():
        g, second = mean[name].double().reshape(-1), squares.double().reshape(-1) / size
        variance = second - g.square()
        rounding = 8 * torch.finfo(squares.dtype).eps * second
        means.append(g)
        variances.append(torch.where(variance > rounding, variance, 0) * (size / (size - correction)))
    return torch.cat(means), torch.cat(variances)


def ratio(g: Tensor, variance: Tensor, epsilon: float) -> Tensor:
    """g_j^2 / variance_j where the variance is positive; with ``epsilon``, over all elements as the original does."""
    if epsilon:
        return g.square() / (variance + epsilon)
    spread = variance > 0
    return g[spread].square() / variance[spread]
