"""Exact histograms of gradient elements, mostly without looking at the elements.

Nearly every element is so small that its sign alone decides its bin. So signs are counted (of factors, where g_n is an
outer product), and only the elements beyond the first edges are compared with the bins.
"""

import torch
from torch import Tensor

from cockpit.engine.binning import Bins

CHUNK = 2**22


def elements_1d(g: Tensor, bins: Bins) -> Tensor:
    """Histogram of all elements of ``g``: [bins]."""
    radius, below, zero = bins.near_zero
    beyond = g.abs() >= radius
    if below != zero and g.device.type == "cpu" and int(beyond.sum()) > g.numel() // 3:
        return _by_floor(g, bins, zero)
    large = g[beyond]
    counts = _counts(bins.index(large), bins.count)
    small_negative = torch.count_nonzero(g < 0) - torch.count_nonzero(large < 0)
    counts[below] += small_negative
    counts[zero] += g.numel() - large.numel() - small_negative
    return counts


def _by_floor(g: Tensor, bins: Bins, zero: int) -> Tensor:
    """Many elements beyond the first edges: round down to bins, then look again at those on the verge of an edge."""
    scaled = g * (bins.count / (bins.high - bins.low))
    floored = scaled.floor().clamp_(-zero, bins.count - zero - 1)
    counts = torch.histc(floored + 0.5, bins.count, -zero, bins.count - zero).long()
    nearest = scaled.round()
    verge = (scaled - nearest).abs_() <= 8 * torch.finfo(g.dtype).eps * bins.count
    verge &= nearest != 0
    if bool(verge.any()):
        counts += _counts(bins.index(g[verge]), bins.count)
        counts -= _counts(floored[verge].long() + zero, bins.count)
    return counts


def elements_2d(g: Tensor, theta_bins: Tensor, bins: Bins, parameter_bins: Bins) -> Tensor:
    """Histogram of (g_nd, theta_d) for ``g`` [n, D]: [gradient bins, parameter bins]."""
    radius, below, zero = bins.near_zero
    large = g.abs() >= radius
    negative = (~large & (g < 0)).sum(0)  # [D]
    rest = g.shape[0] - large.sum(0) - negative
    counts = torch.zeros(bins.count, parameter_bins.count, dtype=torch.int64, device=g.device)
    counts[below].index_add_(0, theta_bins, negative)
    counts[zero].index_add_(0, theta_bins, rest)
    columns = large.nonzero(as_tuple=True)[1]
    joint = bins.index(g[large]) * parameter_bins.count + theta_bins[columns]
    return counts + _counts(joint, counts.numel()).view_as(counts)


def outer_1d(row: Tensor, col: Tensor, bins: Bins) -> Tensor:
    """Histogram of row_no col_ni over n, o, i without forming the products: [bins]."""
    radius, below, zero = bins.near_zero
    small = row.abs() * col.abs().amax(1, keepdim=True) < radius  # [N, O]: all products of this row are near zero
    negative = _negative_products(row, col, small)
    counts = torch.zeros(bins.count, dtype=torch.int64, device=row.device)
    counts[below] += negative
    counts[zero] += small.sum() * col.shape[1] - negative
    sample, output = (~small).nonzero(as_tuple=True)
    for n, o in zip(*_pieces(sample, output, col.shape[1]), strict=True):
        counts += elements_1d(row[n, o, None] * col[n], bins)
    return counts


def outer_2d(row: Tensor, col: Tensor, theta: Tensor, bins: Bins, parameter_bins: Bins) -> Tensor:
    """Histogram of (row_no col_ni, theta_oi): signs are counted by products of 0/1 matrices."""
    radius, below, zero = bins.near_zero
    small = row.abs() * col.abs().amax(1, keepdim=True) < radius
    theta_bins = parameter_bins.index(theta)  # [O, I]
    up, down = (small & (row > 0)).float(), (small & (row < 0)).float()
    negative = (up.mT @ (col < 0).float() + down.mT @ (col > 0).float()).long()  # [O, I], at most N: exact
    rest = small.sum(0)[:, None] - negative
    counts = torch.zeros(bins.count, parameter_bins.count, dtype=torch.int64, device=row.device)
    counts[below].index_add_(0, theta_bins.reshape(-1), negative.reshape(-1))
    counts[zero].index_add_(0, theta_bins.reshape(-1), rest.reshape(-1))
    sample, output = (~small).nonzero(as_tuple=True)
    for n, o in zip(*_pieces(sample, output, col.shape[1]), strict=True):
        joint = bins.index(row[n, o, None] * col[n]) * parameter_bins.count + theta_bins[o]
        counts += _counts(joint, counts.numel()).view_as(counts)
    return counts


def rows_1d(value: Tensor, elements: int, bins: Bins) -> Tensor:
    """Histogram of the rows that are not zero, and of all the zeros beside them."""
    counts = elements_1d(value, bins)
    counts[bins.near_zero[2]] += elements - value.numel()
    return counts


def rows_2d(value: Tensor, index: Tensor, samples: int, theta: Tensor, bins: Bins, parameter_bins: Bins) -> Tensor:
    """Histogram of (g, theta) where g_n has the rows ``value`` [M, E] at ``index`` and zeros elsewhere."""
    theta_bins = parameter_bins.index(theta)  # [V, E]
    joint = bins.index(value) * parameter_bins.count + theta_bins[index]
    counts = _counts(joint, bins.count * parameter_bins.count).view(bins.count, parameter_bins.count)
    visits = torch.bincount(index, minlength=theta.shape[0])
    zeros = (samples - visits)[:, None].expand_as(theta)
    counts[bins.near_zero[2]].index_add_(0, theta_bins.reshape(-1), zeros.reshape(-1))
    return counts


def _negative_products(row: Tensor, col: Tensor, small: Tensor) -> Tensor:
    up, down = (small & (row > 0)).sum(1), (small & (row < 0)).sum(1)
    return (up * (col < 0).sum(1) + down * (col > 0).sum(1)).sum()


def _pieces(sample: Tensor, output: Tensor, width: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    step = max(1, CHUNK // max(1, width))
    return sample.split(step), output.split(step)


def _counts(index: Tensor, size: int) -> Tensor:
    return torch.bincount(index.reshape(-1), minlength=size)
