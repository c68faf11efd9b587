"""Tensors with fixed addresses, filled from others before a recording that reads them is replayed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

Draw = Callable[[Tensor], Tensor]  # a tensor like a given one


class Stock:
    """Memory for the inputs of recordings: all share it, because only one is at work at a time."""

    def __init__(self) -> None:
        self._rooms: dict[object, list[Tensor]] = {}
        self.nbytes = 0

    @contextmanager
    def drawing(self) -> Iterator[Draw]:
        """For one recording: it is never given the same room twice; if it fails, what was added for it is let go."""
        before = {key: len(rooms) for key, rooms in self._rooms.items()}
        try:
            yield self._drawer()
        except BaseException:
            for key, rooms in self._rooms.items():
                del rooms[before.get(key, 0) :]
            self.nbytes = sum(room.nbytes for rooms in self._rooms.values() for room in rooms)
            raise

    def _drawer(self) -> Draw:
        used = Counter[object]()

        def draw(like: Tensor) -> Tensor:
            key = _kind(like)
            rooms = self._rooms.setdefault(key, [])
            if used[key] == len(rooms):
                rooms.append(torch.empty_like(like))
                self.nbytes += like.nbytes
            used[key] += 1
            return rooms[used[key] - 1]

        return draw

    def lacks(self, tensors: Iterable[Tensor]) -> int:
        """Bytes that must be added for such inputs."""
        wanted, each = Counter[object](), dict[object, int]()
        for tensor in tensors:
            key = _kind(tensor)
            wanted[key] += 1
            each[key] = tensor.nbytes
        return sum(each[key] * max(0, count - len(self._rooms.get(key, ()))) for key, count in wanted.items())


def _kind(tensor: Tensor) -> object:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


class Feed:
    """Copies tensors to where a recording reads them, those that are alike in one call."""

    def __init__(self, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
        self._targets = list(targets)
        groups: dict[object, list[int]] = {}
        for place, (target, source) in enumerate(zip(targets, sources, strict=True)):
            same = target.stride() == source.stride() and target.numel() > 0
            groups.setdefault((target.dtype, same), []).append(place)
        self._groups = [([self._targets[k] for k in group], group) for group in groups.values()]
        self(sources)

    def __call__(self, sources: Sequence[Tensor]) -> None:
        """Copy, in the order in which the targets were given."""
        for targets, group in self._groups:
            torch._foreach_copy_(targets, [sources[k] for k in group])

    @property
    def nbytes(self) -> int:
        """Bytes of the targets."""
        return sum(target.nbytes for target in self._targets)
