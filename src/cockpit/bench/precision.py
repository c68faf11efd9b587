"""On what a run is computed, and in which precision."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from cockpit.core.errors import CockpitError, unknown
from cockpit.problems._base import Batch, Splits
from cockpit.problems.data.batches import changed

DTYPES = {"float32": torch.float32, "float64": torch.float64}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(wanted: str | torch.device | None) -> torch.device:
    """The device that is asked for; otherwise a GPU if there is one."""
    if wanted is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise CockpitError(f"device {str(wanted)!r} cannot be used: {str(error).splitlines()[0]}") from None
    return device


def choose_precision(wanted: bool | str | None, device: torch.device, closure: bool = False) -> str | None:
    """The type of mixed precision, ``"bf16"`` or ``"fp16"``; None for full precision."""
    if wanted is None or wanted is False:
        return None
    name = "bf16" if wanted is True else wanted
    if name not in TYPES:
        raise unknown("precision", name, TYPES)
    if name == "fp16" and device.type != "cuda":
        raise CockpitError(f"fp16 needs a CUDA device, this is {device.type}; give bf16, or no mixed precision")
    if name == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise CockpitError(f"{torch.cuda.get_device_name(device)} has no bf16; give fp16, or no mixed precision")
    if name == "fp16" and closure:
        raise CockpitError("fp16 scales the loss, which an optimizer that computes it again cannot undo; give bf16")
    return name


def autocast(precision: str | None, device: torch.device) -> AbstractContextManager[object]:
    """What a model and its losses are computed under."""
    return nullcontext() if precision is None else torch.autocast(device.type, dtype=TYPES[precision])


@contextmanager
def numbers(dtype: str) -> Iterator[None]:
    """Make models of numbers of this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(DTYPES[dtype])
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def in_numbers(splits: Splits, dtype: str) -> Splits:
    """The same data with numbers of this type in place of float32."""
    if dtype == "float32":
        return splits

    def cast(value: Any) -> Any:
        return value.to(DTYPES[dtype]) if isinstance(value, Tensor) and value.dtype == torch.float32 else value

    def batch(one: Batch) -> Batch:
        return cast(one[0]), cast(one[1])

    return changed(splits, batch)


def full(values: Tensor) -> Tensor:
    """Values of a batch in a precision that their mean can be taken in."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def scaler(precision: str | None) -> torch.amp.GradScaler | None:
    """What keeps small gradients alive in fp16."""
    return torch.amp.GradScaler("cuda") if precision == "fp16" else None
