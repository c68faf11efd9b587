"""Sums over all elements of a parameter that end in a few numbers: computed where the elements are."""

import torch
from torch import Tensor

from cockpit.engine import native


def moments(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """(mean, sample variance, mean absolute value) of per-sample numbers, in double precision; [3].

    Given the rows of several parameters, [P, N], these are summed first, each times its weight.
    """
    if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64) and native.usable():
        return native.moments(values.view(-1, values.shape[-1]), weights)
    if weights is not None:
        values = values.double() * weights[:, None].to(values.device)
    wide = values.double() if values.dim() == 1 else values.sum(0, dtype=torch.float64)
    mean = wide.mean()
    rest = wide - mean
    return torch.stack([mean, rest.dot(rest) / (len(wide) - 1) if len(wide) > 1 else mean * 0, wide.abs().mean()])


def scatter(sq_norms: Tensor, dots: Tensor) -> Tensor:
    """sum_n ||g_n||^2 and sum_n <g_n, g>^2 over all parameters, from their rows [P, N]; [2], double precision."""
    if native.usable(sq_norms, dots):
        return native.scatter(sq_norms, dots)
    along = dots.sum(0, dtype=torch.float64)
    return torch.stack([sq_norms.sum(dtype=torch.float64), along.dot(along)])


def row_sums(rows: Tensor) -> Tensor:
    """Sum of each row [P, N], in double precision; [P]."""
    return native.row_sums(rows) if native.usable(rows) else rows.sum(1, dtype=torch.float64)


def centre(dots: Tensor) -> Tensor:
    """Mean and mean absolute value of each row of <g_n, g>; [2, P], double precision."""
    if native.usable(dots):
        return native.centres(dots)
    wide = dots.double()
    return torch.stack([wide.mean(1), wide.abs().mean(1)])


def signal_to_noise(mean: Tensor, sum_sq: Tensor, size: int, correction: int, epsilon: float) -> Tensor:
    """(sum_j g_j^2 / var_j, number of terms), [2], with the variance divided by ``size - correction``.

    A variance below rounding is zero: the difference of two equal numbers says nothing. Elements without variance do
    not count; with ``epsilon``, which is added to every variance, all do.
    """
    if native.usable(mean, sum_sq):
        return native.signal_to_noise(mean, sum_sq, size, correction, epsilon)
    g, second = mean.double().reshape(-1), sum_sq.double().reshape(-1) / size
    square = g.square()
    variance = second - square
    rounding = 8 * torch.finfo(sum_sq.dtype).eps * second
    variance = torch.where(variance > rounding, variance, 0) * (size / (size - correction))
    if epsilon:
        return torch.stack([(square / (variance + epsilon)).sum(), torch.full_like(square[:1], len(g)).sum()])
    spread = variance > 0
    ratios = torch.where(spread, square / torch.where(spread, variance, 1), 0)
    return torch.stack([ratios.sum(), spread.sum().double()])


def noise_to_curvature(sum_sq: Tensor, diagonal: Tensor | None, epsilon: float) -> Tensor:
    """sum_j [sum_n g_n,j^2] / (h_j + epsilon)."""
    if native.usable(sum_sq) and (diagonal is None or native.usable(diagonal)):
        return native.noise_to_curvature(sum_sq, diagonal, epsilon)
    curvature = 0.0 if diagonal is None else diagonal.double()
    return (sum_sq.double() / (curvature + epsilon)).sum()
