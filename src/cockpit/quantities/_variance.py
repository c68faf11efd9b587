"""Elementwise mean and variance of individual gradients."""

import torch
from torch import Tensor

from cockpit.engine.observation import Observation


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
