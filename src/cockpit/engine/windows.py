"""The windows of a convolution or of max-pooling."""

from typing import NamedTuple

from cockpit.engine.graph import Node


class Windows(NamedTuple):
    """Sizes along each axis of space."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, node: Node) -> "Windows":
        """Of a convolution, from autograd's node."""
        kernel = node._saved_weight.shape[2:]
        return cls(*map(tuple, (kernel, node._saved_stride, node._saved_padding, node._saved_dilation)))
