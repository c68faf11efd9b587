"""Convolutions in one, two and three dimensions, and transposed ones: a matrix product with the unfolded input.

The weight gradient of a transposed convolution is that of an ordinary one with input and output gradient exchanged.
"""

from collections.abc import Sequence
from math import prod

from torch import Tensor

from cockpit.layers._rule import Rule, Use
from cockpit.layers.forms import Convolved, Dense, Form

WEIGHT, BIAS = 1, 2


def convolution(use: Use) -> Form | None:
    """``out = conv(input, weight, bias)``."""
    node, grad = use.node, use.grad
    size = prod(grad.shape[1:])
    if not size or use.layout.inner % size:
        return None
    if use.slot == BIAS:
        return Dense(_by_sample(grad.flatten(2).sum(2), use).sum(1))
    inputs = node._saved_input
    axes = inputs.dim() - 2
    signal, response = (grad, inputs) if node._saved_transposed else (inputs, grad)
    return Convolved(
        use.shape,
        _by_sample(signal, use),
        _by_sample(response, use),
        node._saved_groups,
        along(node._saved_stride, axes),
        along(node._saved_padding, axes),
        along(node._saved_dilation, axes),
    )


def along(sizes: Sequence[int], axes: int) -> tuple[int, ...]:
    """Sizes along each axis of space; autograd may save one for all, as ``padding="valid"`` does."""
    return tuple(sizes) if len(sizes) == axes else (sizes[0],) * axes


def _by_sample(images: Tensor, use: Use) -> Tensor:
    """Group images by sample: [n, ...] -> [N, images of each, ...]; frames may have been folded into the batch."""
    consecutive = use.layout.inner // prod(use.grad.shape[1:])
    grouped = images.reshape(-1, use.layout.samples, consecutive, *images.shape[1:]).transpose(0, 1)
    return grouped.reshape(use.layout.samples, -1, *images.shape[1:])


RULES: dict[str, Rule] = {"ConvolutionBackward": convolution}
