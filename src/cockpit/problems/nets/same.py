"""Layers with "same" padding: as many outputs as inputs, divided by the stride and rounded up.

Where the padding is odd, the larger half goes to the bottom and the right; torch's own layers only know equal halves.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn


def padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """How much to add before and after an axis of ``size`` entries."""
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class Conv2dSame(nn.Conv2d):
    """A convolution with "same" padding."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Pad as the size of the inputs, [N, I, H, W], demands, and convolve."""
        (top, bottom), (left, right) = (
            padding(*axis) for axis in zip(inputs.shape[2:], self.kernel_size, self.stride, strict=True)
        )
        if (top, left) != (bottom, right):
            inputs = F.pad(inputs, (left, right, top, bottom))
            top = left = 0
        return F.conv2d(inputs, self.weight, self.bias, self.stride, (top, left))


class ConvTranspose2dSame(nn.ConvTranspose2d):
    """A transposed convolution with "same" padding: ``stride`` times as many outputs as inputs."""

    def forward(self, inputs: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Convolve [N, I, H, W] and cut off what the padding of the convolution that it transposes would cover."""
        height, width = (size * stride for size, stride in zip(inputs.shape[2:], self.stride, strict=True))
        halves = [
            padding(size, kernel, stride)
            for size, kernel, stride in zip((height, width), self.kernel_size, self.stride, strict=True)
        ]
        wider = [max(stride - kernel, 0) for stride, kernel in zip(self.stride, self.kernel_size, strict=True)]
        before = [first for first, _ in halves]
        outputs = F.conv_transpose2d(inputs, self.weight, self.bias, self.stride, before, wider)
        return outputs[:, :, :height, :width]


class MaxPool2dSame(nn.Module):
    """Max-pooling with "same" padding; what is padded never wins."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride

    def forward(self, inputs: Tensor) -> Tensor:
        """Pad as the size of the inputs, [N, C, H, W], demands, and pool."""
        (top, bottom), (left, right) = (padding(size, self.kernel, self.stride) for size in inputs.shape[2:])
        beyond = bottom > top  # the last windows reach over the edge by one, which rounding up does without a copy
        if bottom - top != right - left or (beyond and self.stride == 1):
            inputs = F.pad(inputs, (left, right, top, bottom), value=-math.inf)
            top, left, beyond = 0, 0, False
        return F.max_pool2d(inputs, self.kernel, self.stride, (top, left), ceil_mode=beyond)

    def extra_repr(self) -> str:
        """Kernel and stride, as torch's pooling layers print them."""
        return f"kernel_size={self.kernel}, stride={self.stride}"
