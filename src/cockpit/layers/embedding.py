"""Look-ups: the gradient of a sample touches the few rows it looked up."""

import torch

from cockpit.core.errors import Undefined
from cockpit.layers._rule import Rule, Use
from cockpit.layers.forms import Form, Indexed

SUM, MEAN = 0, 1  # modes of an embedding bag


def embedding(use: Use) -> Form | None:
    """``weight[indices]``."""
    node = use.node
    if node._saved_sparse:
        raise Undefined("sparse embedding gradients are not supported: use nn.Embedding(..., sparse=False)")
    if node._saved_scale_grad_by_freq:
        return None  # the factor depends on the whole batch: the generic rule asks autograd
    indices, width = node._saved_indices, use.grad.shape[-1]
    sample = _samples(use, width)
    index, value = indices.reshape(-1), use.grad.reshape(-1, width)
    padding = node._saved_padding_idx
    if 0 <= padding < use.shape[0]:
        sample, index, value = (t[indices.reshape(-1) != padding] for t in (sample, index, value))
    return Indexed(use.shape, use.layout.samples, sample, index, value)


def embedding_bag(use: Use) -> Form | None:
    """Sum or mean of the looked-up rows of each bag."""
    node = use.node
    if node._saved_sparse:
        raise Undefined("sparse embedding gradients are not supported: use nn.EmbeddingBag(..., sparse=False)")
    if use.slot != 0 or node._saved_mode not in (SUM, MEAN) or node._saved_scale_grad_by_freq:
        return None
    bags, width = use.grad.shape
    indices, offsets = node._saved_indices.reshape(-1), node._saved_offsets
    ends = torch.cat([offsets[1:], offsets.new_tensor([len(indices)])])[:bags]
    sizes = ends - offsets[:bags]
    bag = torch.repeat_interleave(torch.arange(bags, device=sizes.device), sizes)
    weight = torch.ones_like(indices, dtype=use.grad.dtype)
    if node._saved_per_sample_weights is not None:
        weight = weight * node._saved_per_sample_weights.reshape(-1)
    keep = indices != node._saved_padding_idx
    if node._saved_mode == MEAN:
        kept = torch.zeros(bags, dtype=weight.dtype, device=weight.device).index_add_(0, bag, keep.to(weight.dtype))
        weight = weight / kept.clamp_min(1)[bag]
    value = use.grad[bag] * weight[:, None]
    sample = _samples(use, width)[bag]
    return Indexed(use.shape, use.layout.samples, sample[keep], indices[keep], value[keep])


def _samples(use: Use, width: int) -> torch.Tensor:
    """Sample of each row of the output."""
    rows = use.grad.numel() // width
    positions = torch.arange(rows, device=use.grad.device) * width
    return (positions // use.layout.inner) % use.layout.samples


RULES: dict[str, Rule] = {"EmbeddingBackward": embedding, "EmbeddingBagBackward": embedding_bag}
