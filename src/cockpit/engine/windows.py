"""The windows of a convolution or of max-pooling."""

from typing import NamedTuple

from cockpit.engine.autograd.graph import Node
from cockpit.layers.convolution import along


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
        sizes = kernel, node._saved_stride, node._saved_padding, node._saved_dilation
        return cls(*(along(size, len(kernel)) for size in sizes))

    @classmethod
    def of_pooling(cls, node: Node) -> "Windows":
        """Of max-pooling of images, from autograd's node; without a stride, windows lie side by side."""
        kernel = node._saved_kernel_size
        sizes = kernel, node._saved_stride or kernel, node._saved_padding, node._saved_dilation
        return cls(*(along(size, 2) for size in sizes))

    @property
    def holding(self) -> tuple[int, ...]:
        """How many windows may hold one place, along each axis."""
        sizes = zip(self.kernel, self.dilation, self.stride, strict=True)
        return tuple(-(-(spread * (size - 1) + 1) // step) for size, spread, step in sizes)

    def told(self) -> dict[str, int]:
        """Those of max-pooling of images in the words of the kernels (``pick_program.py``)."""
        words = {"STRIDE": self.stride, "PADDING": self.padding, "OVER": self.holding}
        return {
            name + across: size
            for name, sizes in words.items()
            for across, size in zip(("", "_ACROSS"), sizes, strict=True)
        }
