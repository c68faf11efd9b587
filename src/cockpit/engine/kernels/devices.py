"""Whether kernels run here at all, and what the launches need to know of a device."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import torch
from torch import Tensor, nn

PRECISIONS = frozenset({torch.float32, torch.bfloat16, torch.float16})
SWITCH = "COCKPIT_TRITON"  # "0": never; "interpret": on the CPU too, by Triton's interpreter, for tests


def usable(tensor: Tensor) -> bool:
    """Whether the kernels take ``tensor``; the first question for a device builds and runs a tiny kernel on it."""
    if tensor.dtype not in PRECISIONS or type(tensor) not in (Tensor, nn.Parameter):
        return False
    switch = os.environ.get(SWITCH, "")
    if switch == "0" or _held:
        return False
    if tensor.is_cuda:
        return _answered(tensor.device)
    return switch == "interpret" and tensor.device.type == "cpu" and _interpreted()


@contextmanager
def held_back(hold: bool) -> Iterator[None]:
    """Leave the kernels alone for a while: building one takes seconds, which may be more than watching may cost."""
    global _held
    before, _held = _held, hold
    try:
        yield
    finally:
        _held = before


def obstacle(device: torch.device) -> str | None:
    """What keeps the kernels from a CUDA device, if anything does."""
    return None if _answered(device) else _obstacles[device]


def processors(device: torch.device) -> int:
    """Multiprocessors of the device; two where the interpreter plays one."""
    return _processors(device) if device.type == "cuda" else 2


def shared_memory(device: torch.device) -> int:
    """Bytes that the threads of one program may share; as on a large device where the interpreter plays one."""
    return _shared_memory(device) if device.type == "cuda" else 2**18


def on(device: torch.device) -> AbstractContextManager[object]:
    """Make ``device`` the one that launches go to."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


_held = False
_obstacles: dict[torch.device, str | None] = {}


def _answered(device: torch.device) -> bool:
    if device not in _obstacles:
        if torch.cuda.is_current_stream_capturing():
            return False  # nothing can be tried now: ask again later
        _obstacles[device] = _try(device)
    return _obstacles[device] is None


def _try(device: torch.device) -> str | None:
    if torch.version.hip is not None:
        return "the kernels are written for NVIDIA GPUs"
    try:
        from cockpit.engine.kernels.probe_program import probe  # Triton may be missing, or its compiler, or ours

        with on(device):
            if probe(device):
                return None
        return "a first kernel gave a wrong result"
    except Exception as error:  # whatever it is, the same numbers come without kernels
        return f"{type(error).__name__}: {error}"


@cache
def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@cache
def _shared_memory(device: torch.device) -> int:
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0))


@cache
def _interpreted() -> bool:
    try:
        from cockpit.engine.kernels.probe_program import probe

        return os.environ.get("TRITON_INTERPRET") == "1" and probe(torch.device("cpu"))
    except Exception:
        return False
