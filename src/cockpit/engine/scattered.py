"""Gradients that are zero almost everywhere, as max-pooling sends them: kept as values and where they go.

The places are the same for all columns. Windows overlap: a place may occur twice, its values add up.
"""

from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from cockpit.engine.native.picked import Grid, Picks, grid
from cockpit.engine.windows import Windows


@dataclass(frozen=True, slots=True)
class Scattered:
    """Gradients of images, [columns, N, C, *positions], that are zero but for S places in each channel."""

    value: Tensor  # [columns, N, C, S]
    index: Tensor  # [N, C, S]: position in the flattened image
    shape: tuple[int, ...]  # [N, C, *positions]
    kept: Tensor | None = None  # [N, C, S]: False where the value is zero, on a CPU whatever it says
    picks: dict[Grid, Picks] = field(default_factory=dict)  # made so far, see ``picked``
    windows: Windows | None = None  # of max-pooling, if they are known
    grid: tuple[int, ...] = ()  # how many there are, along each axis
    whole: list[Tensor] = field(default_factory=list)  # with the zeros, where they were filled in (see ``filling.py``)

    @classmethod
    def of(cls, grad: Tensor, index: Tensor, shape: tuple[int, ...], windows: Windows | None = None) -> "Scattered":
        """Each entry of ``grad``, [columns, N, C, ...], goes to the place that ``index``, [N, C, ...], says."""
        return cls(grad.flatten(3), index.flatten(2), shape, windows=windows, grid=tuple(index.shape[2:]))

    def __len__(self) -> int:
        return len(self.value)

    @property
    def dtype(self) -> torch.dtype:
        """Precision."""
        return self.value.dtype

    def where_positive(self, result: Tensor) -> "Scattered":
        """Zero where ``result``, [N, C, *positions], is not positive: the gradient of a ReLU."""
        return self.where_kept(~(result.flatten(2).gather(2, self.index) <= 0))

    def where_kept(self, kept: Tensor) -> "Scattered":
        """Zero where ``kept``, [N, C, S], is False; on a GPU at once, for all who read the values."""
        value = torch.where(kept, self.value, self.value.new_zeros(())) if self.value.is_cuda else self.value
        kept = kept if self.kept is None else self.kept & kept
        return Scattered(value, self.index, self.shape, kept, windows=self.windows, grid=self.grid)

    def index_or(self, nowhere: int) -> Tensor:
        """The places, and ``nowhere`` for those that are zero."""
        return self.index if self.kept is None else torch.where(self.kept, self.index, nowhere)

    def values(self, columns: slice = slice(None), samples: slice = slice(None)) -> Tensor:
        """The values of some columns and samples, [columns, N, C, S]."""
        value = self.value[columns, samples]
        if self.kept is None or value.is_cuda:
            return value
        return torch.where(self.kept[samples], value, value.new_zeros(()))

    def dense(self, columns: slice = slice(None), samples: slice = slice(None)) -> Tensor:
        """With the zeros, [columns, N, C, *positions]."""
        if self.whole:
            return self.whole[0][columns, samples]
        value, index = self.values(columns, samples), self.index[samples]
        images = value.new_zeros(*value.shape[:3], prod(self.shape[2:]))
        if value.is_cuda and torch.are_deterministic_algorithms_enabled():
            first = torch.arange(0, images.numel(), images.shape[3], device=value.device).view(*value.shape[:3], 1)
            images.view(-1).index_put_(((index + first).flatten(),), value.flatten(), accumulate=True)
        else:
            images.scatter_add_(3, index.expand(value.shape), value)
        return images.view(*value.shape[:3], *self.shape[2:])


def dense(grad: Tensor | Scattered, begin: int = 0, end: int | None = None) -> Tensor:
    """Columns [begin, end) with the zeros."""
    if isinstance(grad, Scattered):
        return grad.dense(slice(begin, end))
    return grad if begin == 0 and end is None else grad[begin:end]


def picked(grad: Scattered, shape: tuple[int, ...], windows: Windows) -> Picks:
    """What was picked of the result of a convolution of images, [N, C, H, W]: for loops that pass over the zeros."""
    found = grid(shape[1], shape[2:], *windows, grad.shape[2:])
    if found not in grad.picks:
        index = grad.index.to(torch.int32)  # in half the memory
        grad.picks[found] = Picks(found, index if grad.kept is None else torch.where(grad.kept, index, found.positions))
    return grad.picks[found]
