"""Scales and shifts of normalisation layers: g_n sums the gradient times the normalised input over positions."""

from math import prod
from typing import Any

import torch
from torch import Tensor

from cockpit.layers._rule import Rule, Use
from cockpit.layers.elementwise import broadcast
from cockpit.layers.forms import Dense, Form

WEIGHT, BIAS = 1, 2
PIECE = 2**24  # elements that are widened at once
POSITIONS = 256  # in a channel of a sample, from which on one pass is quicker than three


def layer_norm(use: Use) -> Form | None:
    """Normalise over the last axes."""
    if use.slot == BIAS:
        return broadcast(use, use.grad)
    mean, rstd = use.node._saved_result1, use.node._saved_result2
    return broadcast(use, (use.node._saved_input - mean) * rstd * use.grad)


def batch_norm(use: Use) -> Form | None:
    """Normalise each channel, by the batch's or the running statistics; [N, C, ...]."""
    if use.layout.axis_of(tuple(use.grad.shape)) != 0:
        return None
    if use.slot == BIAS:
        return _channels(use, use.grad)
    node, inputs = use.node, use.node._saved_input
    if node._saved_training:
        mean, rstd = node._saved_result1, node._saved_result2
    else:
        mean, rstd = node._saved_running_mean, torch.rsqrt(node._saved_running_var + _epsilon(node))
    if _in_one_pass(inputs, use.grad, mean, rstd):
        return Dense(_reduced(inputs, use.grad, mean, rstd))
    step = max(1, PIECE // max(1, inputs[0].numel()))
    pairs = zip(inputs.split(step), use.grad.split(step), strict=True)
    return Dense(torch.cat([_centred(some, grad, mean) for some, grad in pairs]) * rstd)


def _centred(inputs: Tensor, grad: Tensor, mean: Tensor) -> Tensor:
    """sum_t (x - mean) grad, [n, C]."""
    centred = (inputs - mean.view((1, -1) + (1,) * (inputs.dim() - 2))).mul_(grad)
    return centred.flatten(2).sum(2) if centred.dim() > 2 else centred


def _in_one_pass(*tensors: Tensor) -> bool:
    """Whether torch's kernel for several GPUs' batch norms reads them, and there is enough for it to do."""
    single = all(t.is_cuda and t.dtype is torch.float32 and t.is_contiguous() for t in tensors)
    return single and prod(tensors[0].shape[2:]) >= POSITIONS


def _reduced(inputs: Tensor, grad: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    """sum_t (x - mean) grad rstd, [N, C]: each channel of each sample is a channel of its own."""
    samples, channels = inputs.shape[:2]
    apart = 1, samples * channels, -1
    given = grad.reshape(apart), inputs.reshape(apart), mean.repeat(samples), rstd.repeat(samples)
    found: Tensor = torch.batch_norm_backward_reduce(*given, None, True, False, False)[1]
    return found.view(samples, channels) * rstd


def _epsilon(node: Any) -> float:
    """cuDNN's node calls it otherwise."""
    return float(node._saved_eps if hasattr(node, "_saved_eps") else node._saved_epsilon)


def group_norm(use: Use) -> Form | None:
    """Normalise groups of channels of each sample; [N, C, ...]."""
    if use.layout.axis_of(tuple(use.grad.shape)) != 0:
        return None
    if use.slot == BIAS:
        return _channels(use, use.grad)
    node, inputs = use.node, use.node._saved_input
    grouped = inputs.reshape(inputs.shape[0], node._saved_group, -1)
    mean, rstd = (saved.reshape(grouped.shape[0], -1, 1) for saved in (node._saved_result1, node._saved_result2))
    return _channels(use, ((grouped - mean) * rstd).reshape(inputs.shape) * use.grad)


def _channels(use: Use, contribution: Tensor) -> Form:
    return Dense(contribution.flatten(2).sum(2) if contribution.dim() > 2 else contribution)


RULES: dict[str, Rule] = {
    "NativeLayerNormBackward": layer_norm,
    "NativeBatchNormBackward": batch_norm,
    "CudnnBatchNormBackward": batch_norm,
    "NativeGroupNormBackward": group_norm,
}
