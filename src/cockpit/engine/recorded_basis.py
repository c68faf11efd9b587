"""A basis of Lanczos vectors whose next one is made by replaying a recording: a search is a row of replays."""

from collections.abc import Callable

import torch
from torch import Tensor

from cockpit.engine.lanczos import Basis, Matrix, most
from cockpit.engine.program import Replayer
from cockpit.engine.settling import settle

MOST = 2**26  # bytes that may be held between searches: longer vectors keep the device busy without a recording


def worthwhile(vector: Tensor) -> bool:
    """Whether what is held is little beside what it saves."""
    return (most(vector) + 1) * vector.nbytes <= MOST


class RecordedBasis(Basis):
    """All vectors have fixed addresses; those that are not there yet are zero, so that one recording does for all."""

    def __init__(self, replay: Callable[[], Tensor], vector: Tensor, replayer: Replayer) -> None:
        """``replay`` multiplies ``vector``; its result always has the same address."""
        self._replay, self._vector, self._result = replay, vector, replay()
        self.most, self.size, self._image = most(vector), 1, self._result
        self._room = vector.new_zeros(self.most + 1, vector.numel())
        self._at = torch.zeros(1, dtype=torch.int64, device=vector.device)  # the newest vector
        self._next = replayer(self._settled, vector.device)

    def begin(self, start: Tensor) -> "RecordedBasis":
        """Forget all vectors."""
        self.shrink(0)
        self._append(start, start.norm())
        self._at.zero_()
        self._vector.copy_(self._room[0])
        return self

    def multiply(self) -> None:
        """Begin the product of the newest vector, if nobody has."""
        if self._image is None:
            self._image = self._replay()

    def settle(self, newest: int) -> Tensor:
        """As that of any basis; behind the parts along the vectors that are there come zeros."""
        found: Tensor = self._next().clone()
        self.size, self._image = self.size + 1, None
        return found

    def offer(self, image: Tensor) -> None:
        """Take this for the image of the newest vector."""
        self._image = self._result.copy_(image)

    def shrink(self, size: int) -> None:
        """Forget all vectors but the first ones, and what was begun."""
        super().shrink(size)
        self._clear()

    def restart(self, coefficients: Matrix) -> None:
        """As that of any basis; the newest vector stays the one that is multiplied."""
        super().restart(coefficients)
        self._clear()

    def _clear(self) -> None:
        self._room[self.size :].zero_()
        self._at.fill_(self.size - 1)

    def _settled(self) -> Tensor:
        assert self._image is not None  # at the same address each time
        return settle(self._room, self._image, self._at, self._vector)
