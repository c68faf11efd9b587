"""What max-pooling picks of images with the channels last, and the way back: by a kernel each, or by torch."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from cockpit.engine import kernels
from cockpit.engine.autograd.graph import Node
from cockpit.engine.kernels.devices import on
from cockpit.engine.scattered import Scattered
from cockpit.engine.windows import Windows

BLOCK = 1024
MOST = 2**31 - BLOCK  # numbers of images that the kernels count


class Picking:
    """Values at some places of images, [N, S, C], all flat; zero where nothing is to be picked."""

    def __init__(self, places: Scattered) -> None:
        samples, self.channels, *positions = places.shape
        self._size, device = prod(places.shape), places.index.device
        area = prod(positions)
        first = torch.arange(0, samples * area, area, device=device, dtype=torch.int64)[:, None, None]
        channel = torch.arange(self.channels, device=device, dtype=torch.int64)
        self._places = (first + places.index.movedim(1, 2)).mul_(self.channels).add_(channel).flatten()
        self._kept = None if places.kept is None else places.kept.movedim(1, 2).flatten()

    def __len__(self) -> int:
        return len(self._places)

    def pick(self, images: Sequence[Tensor], bias: Tensor | None) -> Tensor:
        """Of the sum of one or two images, and the bias; the first may be overwritten."""
        values = (images[0] if len(images) == 1 else images[0].add_(images[1])).gather(0, self._places)
        if bias is not None:
            values.view(-1, self.channels).add_(bias)
        return self.kept(values)

    def kept(self, values: Tensor) -> Tensor:
        """Zero where nothing is to be picked."""
        return values if self._kept is None else values * self._kept

    def spread(self, values: Tensor) -> Tensor:
        """To the places that were picked; windows overlap, so that one may be picked twice."""
        return values.new_zeros(self._size).scatter_add_(0, self._places, self.kept(values))


class KernelPicking(Picking):
    """The same in one pass each."""

    def __init__(self, places: Scattered, pool: Node) -> None:
        super().__init__(places)
        self._windows, self._sizes = Windows.of_pooling(pool), (*places.shape[2:], *pool._saved_result1.shape[2:])
        self._places = (self._places if self._kept is None else self._places.masked_fill_(~self._kept, -1)).int()

    def pick(self, images: Sequence[Tensor], bias: Tensor | None) -> Tensor:
        """Without a sum in between."""
        from cockpit.engine.pick_program import pick_program

        found = torch.empty(len(self), dtype=torch.float32, device=self._places.device)
        with on(found.device):
            pick_program[(-(-len(self) // BLOCK),)](
                images[0],
                images[-1],
                found if bias is None else bias.contiguous(),
                self._places,
                found,
                len(self),
                self.channels,
                BOTH=len(images) == 2,
                BIASED=bias is not None,
                BLOCK=BLOCK,
            )
        return found

    def spread(self, values: Tensor) -> Tensor:
        """Without zeros being filled in first, and always in the same order."""
        from cockpit.engine.pick_program import spread_program

        found = torch.empty(self._size, dtype=torch.float32, device=self._places.device)
        with on(found.device):
            spread_program[(-(-self._size // BLOCK),)](
                values,
                self._places,
                found,
                self._size,
                self.channels,
                *self._sizes,
                **self._windows.told(),
                BLOCK=BLOCK,
            )
        return found


def picking(places: Scattered, pool: Node, like: Tensor) -> Picking:
    """By kernels where they run, and count to the last place."""
    if like.dtype == torch.float32 and kernels.usable(like) and prod(places.shape) < MOST:
        return KernelPicking(places, pool)
    return Picking(places)
