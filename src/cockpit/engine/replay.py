"""A recorded CUDA graph: hundreds of small kernels started by one call."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Generic, TypeVar

import torch

from cockpit.engine.branches import streams

Result = TypeVar("Result")
_one_at_a_time = Lock()  # all are recorded on the same streams


class Replay(Generic[Result]):
    """Runs a function of fixed tensors once for real, then records it; its results are always the same tensors."""

    def __init__(self, function: Callable[[], Result], device: torch.device) -> None:
        with torch.cuda.device(device):
            function()  # kernels are compiled, libraries make their workspaces
            if torch.cuda.memory_reserved(device) > torch.cuda.get_device_properties(device).total_memory // 8:
                torch.cuda.empty_cache()  # the recording has memory of its own
            self._graph = torch.cuda.CUDAGraph()
            with _one_at_a_time, _no_collection():
                trunk, current = streams(device)[0], torch.cuda.current_stream(device)
                trunk.wait_stream(current)
                with torch.cuda.stream(trunk):
                    self._graph.capture_begin(capture_error_mode="thread_local")
                    try:
                        self.result = function()
                    finally:
                        self._graph.capture_end()
                current.wait_stream(trunk)

    def __call__(self) -> Result:
        """Run it again, on the current stream."""
        self._graph.replay()
        return self.result


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
