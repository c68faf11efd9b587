"""Calls of the loops for convolutions of which few results matter (``picked.h`` says how numbers lie)."""

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

from cockpit.engine.native.build import library
from cockpit.engine.native.calls import call, threads, whole_numbers

Pair = tuple[Tensor, Tensor]


@cache
def block() -> int:
    """Numbers of a block (see ``picked.h``): how it was compiled."""
    loops = library()
    return 8 if loops is None else int(loops.picked_width())


class Grid:
    """Where patches lie in images with their channels last, margins added."""

    def __init__(
        self,
        channels: int,
        size: tuple[int, int],
        kernel: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[int, int],
        dilation: tuple[int, int],
        positions: tuple[int, int],
    ) -> None:
        self._channels, self._kernel, self._padding = channels, kernel, padding
        self._size = height, width = size[0] + 2 * padding[0], size[1] + 2 * padding[1]
        across = range(kernel[1]) if dilation[1] > 1 else range(1)  # runs in a line of the kernel
        line = width * channels
        self._starts = [i * dilation[0] * line + j * dilation[1] * channels for i in range(kernel[0]) for j in across]
        self._patches = [
            i * stride[0] * line + j * stride[1] * channels for i in range(positions[0]) for j in range(positions[1])
        ]
        self._run = channels * kernel[1] // len(across)
        self._blocks = [start + at for start in self._starts for at in range(0, self._run, block())]
        self._image = height * line + (0 if self._run % block() == 0 else block())
        self._heads: dict[tuple[int, int], Tensor] = {}

    @property
    def positions(self) -> int:
        """Number of patches, and the index that stands for none."""
        return len(self._patches)

    def head(self, channels: int, places: int) -> Tensor:
        """What the loops have to know, for results of so many channels."""
        found = self._heads.get((channels, places))
        if found is None:
            blocks = len(self._blocks)
            numbers = [channels, places, len(self._patches), self._image, blocks, blocks // len(self._starts)]
            found = torch.tensor([*numbers, *self._blocks, *self._patches], dtype=torch.int64, device="cpu")
            self._heads[channels, places] = found
        return found

    def images(self, signal: Tensor) -> Tensor:
        """From [N, C, H, W]; without a copy where it lies so already."""
        last, (top, left) = signal.movedim(1, -1), self._padding
        if not (top or left or self._run % block()):
            return last.contiguous()
        room = signal.new_zeros(len(signal), self._image)
        height, width = signal.shape[2:]
        self._shown(room)[:, top : top + height, left : left + width] = last
        return room

    def room(self, *count: int) -> Tensor:
        """Memory for images, [*count, image]."""
        return _numbers(*count, self._image)

    def signal(self, images: Tensor) -> Tensor:
        """Back to [..., C, H, W], without margins."""
        (height, width), (top, left) = self._size, self._padding
        return self._shown(images)[..., top : height - top, left : width - left, :].movedim(-1, -3)

    def _shown(self, images: Tensor) -> Tensor:
        """[..., H, W, C]."""
        height, width = self._size
        numbers = images[..., : height * width * self._channels]
        return numbers.view(*images.shape[:-1], height, width, self._channels)

    def formed(self, images: Tensor, response: Tensor, factor: float, found: Tensor) -> None:
        """Put g_n = factor * response_n patches_n^T there, [N, O, C, *kernel], for responses [N, O, T]."""
        head, inside = self.head(*response.shape[1:]), self._channels
        given = head, len(response), images, response, whole_numbers((0, *response.stride())), factor
        call("picked_formed", *given, inside, len(self._starts), self._run // inside, found, threads())

    def rows(self, weight: Tensor) -> Tensor:
        """From [O, C, *kernel]."""
        runs = weight.movedim(1, -1).reshape(len(weight), len(self._starts), self._run)
        filled = self.no_rows(len(weight))
        filled[..., : self._run] = runs
        return filled

    def no_rows(self, channels: int) -> Tensor:
        """Zeros, to be added to."""
        return _numbers(channels, len(self._starts), -(-self._run // block()) * block()).zero_()

    def weight(self, rows: Tensor) -> Tensor:
        """Back to [O, C, *kernel]."""
        return rows[..., : self._run].reshape(len(rows), *self._kernel, self._channels).movedim(-1, 1)


grid = lru_cache(64)(Grid)


LISTED = 2**16  # channels and places that a list can tell apart


def listable(shape: Sequence[int]) -> bool:
    """Whether places [N, O, *S] can be listed."""
    return max(shape[1], prod(shape[2:])) < LISTED


class Picks:
    """The places of each channel that matter, [N, O, S]: positions of a grid, or its number of positions for none.

    Listed once, without those that are none. Windows overlap: what several of them picked is made once.
    """

    def __init__(self, grid: Grid, index: Tensor) -> None:
        self.grid, self._shape = grid, tuple(index.shape)
        self._index: Tensor | None = index.to(torch.int32).contiguous()
        self._given = grid.head(*index.shape[1:]), len(index)
        self._own = _list(*index.shape[:2], 2), _list(*index.shape), _list(*index.shape, kind=torch.int16)
        call("picked_by_channel", *self._given, self._index, *self._own, threads())
        self._ordered: tuple[Tensor, ...] = ()

    def settle(self, data: bool) -> None:
        """Let go of what lists are made of; ``data``: gradients of images will be asked for."""
        if data:
            self._by_position()
        self._index = None

    def _by_position(self) -> tuple[Tensor, ...]:
        """All lists; gradients of images need those by position, too."""
        if not self._ordered:
            samples = self._shape[0]
            more = _list(samples, self.grid.positions + 1), _list(*self._shape), _list(*self._shape, kind=torch.int16)
            call("picked_by_position", *self._given, self._index, *self._own, *more, threads())
            self._ordered, self._index = more, None
        return *self._own, *self._ordered

    def squares(self, images: Tensor, values: Tensor, signs: Tensor | None) -> tuple[Tensor, Tensor]:
        """sum_nk sign_kn g_nk^2, as rows, for values [K, N, O, S], and of the bias; ``signs`` [K, N] or None."""
        channels = self._shape[1]
        found, sums = self.grid.no_rows(channels), _numbers(channels).zero_()
        signs = None if signs is None else signs.to(torch.float32).contiguous()
        given = *self._given, images, *self._own, values, _steps(values, columns=True), len(values)
        call("picked_squares", *given, signs, found, sums, threads())
        return found, sums

    def back(self, rows: Tensor, values: Tensor) -> Tensor:
        """Gradients of the images for values [K, N, O, S]: [N, K, image]."""
        found = self.grid.room(self._shape[0], len(values))
        given = *self._given, rows, *self._by_position(), values, _steps(values, columns=True), len(values)
        call("picked_back", *given, found, threads())
        return found

    def forward(self, one: Pair | None, other: Pair | None, bias: Tensor | None) -> Tensor:
        """Results at the picked places, of pairs of images and rows, summed: [N, O, S], channels last in memory."""
        samples, channels, places = self._shape
        found = _numbers(samples, places, channels)
        terms = *(one or (None, None)), *(other or (None, None))
        bias = None if bias is None else bias.contiguous()
        call("picked_forward", *self._given, *terms, bias, *self._own, found, threads())
        return found.mT

    def weights(self, one: Pair, other: Pair | None) -> tuple[Tensor, Tensor]:
        """Gradients of the rows, of pairs of images and values [N, O, *places], summed; and of the bias, of one."""
        found, sums = self.grid.no_rows(self._shape[1]), _numbers(self._shape[1]).zero_()
        call("picked_weights", *self._given, *_with_steps(one, other), *self._own, found, sums, threads())
        return found, sums

    def data(self, one: Pair, other: Pair | None) -> Tensor:
        """Gradients of the images, of pairs of rows and values [N, O, *places], summed: [N, image]."""
        found = self.grid.room(self._shape[0])
        call("picked_data", *self._given, *_with_steps(one, other), *self._by_position(), found, threads())
        return found


def _steps(values: Tensor, columns: bool = False) -> Any:
    """From one column, sample and channel to the next, and where each place is, of values [(K,) N, O, *places]."""
    first, steps = 3 if columns else 2, values.stride()
    return _table((*steps[:first],) if columns else (0, *steps[:first]), steps[first:], tuple(values.shape[first:]))


@lru_cache(256)
def _table(steps: tuple[int, ...], within: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    places = (sum(a * b for a, b in zip(at, within, strict=True)) for at in product(*map(range, sizes)))
    return whole_numbers((*steps, *places))


def _with_steps(one: Pair, other: Pair | None) -> tuple[Any, ...]:
    return *one, _steps(one[1]), *((None,) * 3 if other is None else (*other, _steps(other[1])))


def _numbers(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def _list(*shape: int, kind: torch.dtype = torch.int32) -> Tensor:
    return torch.empty(shape, dtype=kind, device="cpu")
