"""Second moments of every element against its mean or its curvature, summed to a few numbers for each parameter."""

from functools import cache

import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Statistic, finished
from cockpit.engine.statistics.sum_sq import SUM_SQ


@cache
def signal_to_noise(correction: int, epsilon: float) -> Statistic:
    """(sum_j g_j^2 / var_j, number of terms), [2], with the variance divided by B - correction.

    A variance below rounding is zero: the difference of two equal numbers says nothing. Elements without variance do
    not count; with ``epsilon``, which is added to every variance, all do.
    """

    def finish(sum_sq: Tensor, at: At) -> Tensor:
        square, second = at.vectors["mean"].double().square(), sum_sq.double() / at.size
        variance = second - square
        rounding = 8 * torch.finfo(sum_sq.dtype).eps * second
        variance = torch.where(variance > rounding, variance, 0) * (at.size / max(1, at.size - correction))
        if epsilon:
            return torch.stack([(square / (variance + epsilon)).sum(), torch.ones_like(square).sum()])
        spread = variance > 0
        ratios = torch.where(spread, square / torch.where(spread, variance, 1), 0)
        return torch.stack([ratios.sum(), spread.sum().double()])

    return finished("signal_to_noise", SUM_SQ, finish, correction, epsilon)


@cache
def noise_to_curvature(name: str, epsilon: float) -> Statistic:
    """sum_j [sum_n g_nj^2] / (h_j + epsilon), with the curvature that lies beside the parameter under a name."""

    def finish(sum_sq: Tensor, at: At) -> Tensor:
        curvature = at.vectors.get(name)
        return (sum_sq.double() / ((0.0 if curvature is None else curvature.double()) + epsilon)).sum()

    return finished("noise_to_curvature", SUM_SQ, finish, name, epsilon, beside=name)
