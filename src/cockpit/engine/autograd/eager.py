"""What a model must run under while a step is tracked: compiled code eagerly, fused kernels in their plain versions."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

OTHERS = (
    "compiled code with dropout draws other random numbers if it runs eagerly; "
    "set torch._inductor.config.fallback_random = True"
)
_holders = 0
_stance: Any = None
_changing = threading.Lock()


def hold() -> None:
    """Compiled functions run eagerly from here on: those that are compiled only now, too."""
    global _holders, _stance
    with _changing:
        if _holders == 0 and "torch._dynamo" in sys.modules:  # else nothing can be compiled
            _stance = torch.compiler.set_stance("force_eager")
        _holders += 1


def release() -> None:
    """The last one to release puts the user's stance back."""
    global _holders, _stance
    with _changing:
        _holders -= 1
        if _holders == 0 and _stance is not None:
            if torch._dynamo.eval_frame._stance is _stance.stance:  # else the user has set another one meanwhile
                _stance.__exit__(None, None, None)
            _stance = None


def uncompiled(function: Callable[..., Any]) -> None:
    """Never trace a function of ours, nor what it calls, where the loop that calls it is compiled."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]  # read while the caller is traced
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))  # read while it runs


def compilations() -> int:
    """How many functions were compiled in this process."""
    known = sys.modules.get("torch._dynamo.utils")
    return 0 if known is None else known.counters["frames"]["ok"]


def is_compiled(model: nn.Module) -> bool:
    """Whether any part of a model is compiled."""
    dynamo = sys.modules.get("torch._dynamo")
    compiled = dynamo.OptimizedModule if dynamo is not None else ()
    return any(
        isinstance(module, compiled) or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )


def kept_compiled(model: nn.Module, before: int, roomy: bool) -> str:
    """Why compiled code is not to run eagerly; empty: it may, or there is none. ``before``: see ``Settings``."""
    if before == compilations():
        return ""
    if not roomy:
        return "the device lacks the memory to run compiled code eagerly; use a smaller batch"
    return OTHERS if draws_others(model) else ""


def draws_others(model: nn.Module) -> bool:
    """Whether the model has dropout and is compiled by Inductor, which draws other random numbers than eager code."""
    utils, known = sys.modules.get("torch._dynamo.utils"), compilations()
    if utils is None or not (utils.counters["inductor"] if known else is_compiled(model)):
        return False
    rates = [r for m in model.modules() if m.training for name, r in vars(m).items() if _is_rate(m, name)]
    if not any(isinstance(rate, float) and rate > 0 for rate in rates):
        return False
    from torch._inductor import config  # which can be told to draw them as eager code does

    return not config.fallback_random


def _is_rate(module: nn.Module, name: str) -> bool:
    return "dropout" in name or (name == "p" and "Dropout" in type(module).__name__)


def full_precision(device: str) -> AbstractContextManager[Any]:
    """Without autocast, for computations of ours; where there is none nothing is entered: leaving one takes long."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def differentiable_twice(model: nn.Module) -> list[Callable[[], Any]]:
    """Fused attention and fused recurrent layers have no second derivative: their plain versions do."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    switches: list[Callable[[], Any]] = [lambda: sdpa_kernel(SDPBackend.MATH)]
    if any(isinstance(module, nn.RNNBase) for module in model.modules()):
        switches += [lambda: torch.backends.cudnn.flags(enabled=False), _without_onednn]
    return switches


@contextmanager
def _without_onednn() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()  # the public context also sets precision flags, with a warning
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
