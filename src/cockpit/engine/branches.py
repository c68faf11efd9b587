"""Work side by side: branches of a CUDA graph.

Most kernels of a recording are small, and one after the other they leave most of a GPU idle. While a graph is recorded,
what is done :func:`beside` waits for nothing but what came before it; anywhere else it is done at once, in its turn.

What a stream lets go is given to later work of its own, which must not overwrite it before others have read it. A
branch waits for all that the trunk was given before it, so what the trunk reads of an earlier branch is safe; what a
branch reads of the trunk must be held until they meet; branches read nothing of each other.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from threading import local
from typing import Any, Generic, TypeVar

import torch

Result = TypeVar("Result")
STREAMS = 3  # beside the trunk; each takes a workspace of its own, of 32 MiB on an H200


class Later(Generic[Result]):
    """What was done beside; ``value`` may be read when all have met."""

    __slots__ = ("_done", "value")

    def __init__(self, value: Result, done: Any = None) -> None:
        self.value, self._done = value, done

    def now(self) -> Result:
        """Wait for this alone."""
        if self._done is not None:
            torch.cuda.current_stream().wait_event(self._done)
        return self.value


class Region:
    """Streams that are at work, and what they read."""

    def __init__(self, device: torch.device) -> None:
        self._trunk = torch.cuda.current_stream(device)
        _, *beside = streams(device)
        self._heavy, self._in_turn = beside[0], cycle(beside)
        self._used = dict[Any, None]()
        self._held = list[object]()
        self._apart = False

    def start(self, function: Callable[[], Result], held: object, heavy: bool) -> Later[Result]:
        """Do it on a stream of its own, after what the trunk was given until now; in a branch, in its turn."""
        if self._apart:
            return Later(function())
        stream, done = self._heavy if heavy else next(self._in_turn), torch.cuda.Event()
        stream.wait_stream(self._trunk)
        self._used[stream], self._apart = None, True
        try:
            with torch.cuda.stream(stream):
                value = function()
                done.record(stream)
        finally:
            self._apart = False
        self._held.append(held)
        return Later(value, done)

    def meet(self) -> None:
        """The trunk waits for all branches."""
        for stream in self._used:
            self._trunk.wait_stream(stream)
        self._used.clear()
        self._held.clear()


class _Open(local):
    region: Region | None = None


_open = _Open()


@contextmanager
def side_by_side(device: torch.device) -> Iterator[None]:
    """A region; in another one, or where no graph is recorded, it is nothing."""
    if _open.region is not None or device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        yield
        return
    region = _open.region = Region(device)
    try:
        yield
    finally:
        _open.region = None
        region.meet()


def beside(function: Callable[[], Result], held: object = None, heavy: bool = False) -> Later[Result]:
    """Do something that may be done beside what follows.

    ``held``: what it reads and would be let go soon. ``heavy``: takes much memory, one such thing at a time.
    """
    region = _open.region
    return Later(function()) if region is None else region.start(function, held, heavy)


def meet() -> None:
    """What was done beside so far may be read."""
    if _open.region is not None:
        _open.region.meet()


@cache
def streams(device: torch.device) -> list[Any]:
    """Where graphs are recorded, the trunk first; of a kind that training hardly uses, and could be in the way of.

    For products of matrices a workspace belongs to each. It is made while a first graph is recorded, which is kept: so
    it stays where later recordings know it, whatever becomes of them.
    """
    found = [torch.cuda.Stream(device, priority=-1) for _ in range(1 + STREAMS)]
    trunk, first, one = found[0], torch.cuda.CUDAGraph(), torch.ones(1, 1, dtype=torch.float32, device=device)
    torch.mm(one, one)  # not yet there: its own workspace must be made below
    trunk.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(trunk):
        first.capture_begin(capture_error_mode="thread_local")
        try:
            for stream in found:
                stream.wait_stream(trunk)
                with torch.cuda.stream(stream):
                    torch.mm(one, one)
                trunk.wait_stream(stream)
        finally:
            first.capture_end()
    _kept.append(first)
    return found


_kept: list[Any] = []
