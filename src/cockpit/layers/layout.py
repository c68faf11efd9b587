"""Where the samples sit in a tensor.

In row-major order the sample of the element at flat position ``i`` is ``(i // inner) % samples``. This holds for batch
first, time first, and any flattening of the two, and no reshape changes it: one number says it all.
"""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """``samples`` blocks of ``inner`` consecutive elements, repeated."""

    samples: int
    inner: int

    def split(self, tensor: Tensor) -> Tensor:
        """View as [outer, samples, inner]."""
        return tensor.reshape(-1, self.samples, self.inner)

    def mask(self, tensor: Tensor, sample: int) -> Tensor:
        """Keep the elements of one sample, zero elsewhere."""
        split = self.split(tensor)
        kept = split.new_zeros(split.shape)
        kept[:, sample] = split[:, sample]
        return kept.reshape(tensor.shape)

    def rows(self, matrix: Tensor) -> Tensor:
        """Group the rows of a [rows, width] matrix by sample: [samples, rows of each, width]."""
        width = matrix.shape[-1]
        if self.inner == width and matrix.shape[0] == self.samples:
            return matrix[:, None]
        consecutive = self.inner // width  # rows of one sample that follow each other
        if matrix.shape[0] == self.samples * consecutive:
            return matrix.reshape(self.samples, consecutive, width)
        grouped = matrix.reshape(-1, self.samples, consecutive, width).transpose(0, 1)
        return grouped.reshape(self.samples, -1, width)

    def in_rows_of(self, width: int) -> bool:
        """Whether samples are told apart by the row, not the column, of a matrix with ``width`` columns."""
        return width > 0 and self.inner % width == 0

    def axis_of(self, shape: tuple[int, ...]) -> int:
        """Return the axis of ``shape`` that counts samples and nothing else; -1 if there is none."""
        for axis, size in enumerate(shape):
            if size == self.samples and prod(shape[axis + 1 :]) == self.inner:
                return axis
        return -1

    def squares(self, tensor: Tensor) -> Tensor:
        """Sum the squares of all elements of each sample: [samples]."""
        dtype = torch.promote_types(tensor.dtype, torch.float32)
        norms: Tensor = torch.linalg.vector_norm(self.split(tensor), dim=(0, 2), dtype=dtype)
        return norms.square()

    def sums(self, tensor: Tensor) -> Tensor:
        """Sum all elements of each sample: [samples]."""
        return self.split(tensor).sum((0, 2))


@dataclass(frozen=True, slots=True)
class Placement:
    """How an axis holds the samples; unlike a layout it stays the same when other sizes change."""

    axis: int
    strided: bool = False  # the axis holds several positions of each sample: sample index fastest

    def layout(self, shape: tuple[int, ...], samples: int) -> Layout | None:
        """Return the layout of a tensor of this shape, or None where the axis cannot hold the samples."""
        if self.axis >= len(shape) or shape[self.axis] == 0 or shape[self.axis] % samples:
            return None
        after = prod(shape[self.axis + 1 :])
        return Layout(samples, after if self.strided else after * (shape[self.axis] // samples))

    def squares(self, tensor: Tensor, samples: int) -> Tensor:
        """Sum the squares of all elements of each sample, [samples], without a copy of the tensor."""
        positions = tensor.shape[self.axis] // samples
        sizes, place = ((positions, samples), 1) if self.strided else ((samples, positions), 0)
        apart = tensor.unflatten(self.axis, sizes)
        others = [axis for axis in range(apart.dim()) if axis != self.axis + place]
        dtype = torch.promote_types(tensor.dtype, torch.float32)
        norms: Tensor = torch.linalg.vector_norm(apart, dim=others, dtype=dtype)
        return norms.square()


def candidates(shape: tuple[int, ...], samples: int, preferred: int = 0) -> list[Placement]:
    """Return every placement that a tensor of this shape admits, the likeliest first."""
    axes = sorted(range(len(shape)), key=lambda axis: (axis != preferred, axis))
    whole = [Placement(axis) for axis in axes if shape[axis] == samples]
    shared = [axis for axis in axes if shape[axis] > samples and shape[axis] % samples == 0]
    if samples == 1:
        return (whole + [Placement(axis) for axis in shared])[:1]
    orders = (False, True) if preferred == 0 else (True, False)  # time first: samples are the faster index
    return whole + [Placement(axis, strided) for axis in shared for strided in orders]
