"""A recorded CUDA graph: hundreds of small kernels started by one call."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Generic, TypeVar

import torch

from cockpit.engine.branches import streams

Result = TypeVar("Result")
_one_at_a_time = Lock()  # all are recorded on the same streams


class Replay(Generic[Result]):
    """Runs a function of fixed tensors once for real, then records it; its results are always the same tensors."""

    def __init__(self, function: Callable[[], Result], device: torch.device, beside: Any = None) -> None:
        """``beside``: another graph, in whose memory there is room."""
        with torch.cuda.device(device):
            function()  # kernels are compiled, libraries make their workspaces
            if torch.cuda.memory_reserved(device) > torch.cuda.get_device_properties(device).total_memory // 8:
                torch.cuda.empty_cache()  # the recording has memory of its own
            self.graph = torch.cuda.CUDAGraph()
            pool = None if beside is None else beside.pool()
            with _one_at_a_time, _no_collection():
                trunk, current = streams(device)[0], torch.cuda.current_stream(device)
                trunk.wait_stream(current)
                with torch.cuda.stream(trunk):
                    self.graph.capture_begin(pool, capture_error_mode="thread_local")
                    try:
                        self.result = function()
                    finally:
                        self.graph.capture_end()
                current.wait_stream(trunk)

    def __call__(self) -> Result:
        """Run it again, on the current stream."""
        self.graph.replay()
        return self.result


class Studio:
    """Makes recordings that share their memory, because only one is at work at a time.

    What a recording leaves is its own as long as somebody holds it, but an earlier recording may overwrite it: it must
    have been read before that one is replayed.
    """

    def __init__(self) -> None:
        self._first: dict[torch.device, Any] = {}  # held: with the last of its graphs memory would be lost

    def __call__(self, function: Callable[[], Result], device: torch.device) -> Replay[Result]:
        """Record a function."""
        found = Replay(function, device, self._first.get(device))
        self._first.setdefault(device, found.graph)
        return found


@contextmanager
def _no_collection() -> Iterator[None]:
    """What the garbage collector frees while a graph is recorded would end the recording."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
