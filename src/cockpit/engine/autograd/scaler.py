"""The loss scale of mixed precision, found without being told."""

import gc
import weakref
from typing import Any

import torch
from torch import Tensor

SEARCHES = 3  # how often the heap is searched for a scaler before giving up


class LossScale:
    """Tells which factor of the backpropagated number is a gradient scaler's."""

    def __init__(self, scaler: Any = None) -> None:
        self._given = scaler
        self._found: weakref.ref[Any] | None = None
        self._searches = 0

    def of(self, root: Tensor) -> float:
        """Return the loss scale inside ``root``; 1 without a scaler."""
        factor = self.factor(root)
        return 1.0 if factor is None else float(factor)

    def factor(self, root: Tensor) -> Tensor | float | None:
        """Return it where it lies, without waiting for the device; None without a scaler."""
        if self._given is not None:
            scale = getattr(self._given, "_scale", None)
            return (self._given.get_scale() if scale is None else scale) if self._given.is_enabled() else None
        factor = _scalar_factor(root)
        if factor is None:
            return None
        scaler = self._found() if self._found is not None else None
        if scaler is None or not _is_its_scale(scaler, factor):
            scaler = self._search(factor)
        return None if scaler is None else factor

    def _search(self, factor: Tensor) -> Any:
        if self._searches >= SEARCHES:
            return None
        self._searches += 1
        for candidate in gc.get_objects():
            # By type, not isinstance: that asks the object, and a weak proxy of something dead answers with an error.
            if issubclass(type(candidate), torch.amp.GradScaler) and _is_its_scale(candidate, factor):
                self._found, self._searches = weakref.ref(candidate), 0
                return candidate
        return None


def _scalar_factor(root: Tensor) -> Tensor | None:
    """The tensor that the loss was multiplied with last, as ``GradScaler.scale`` does; None if there is none."""
    node: Any = root.grad_fn
    if node is None or not node.name().startswith("MulBackward") or root.dim() or len(node.next_functions) != 2:
        return None
    for slot, saved in ((1, "_saved_other"), (0, "_saved_self")):
        factor = getattr(node, saved, None)
        if node.next_functions[slot][0] is None and isinstance(factor, Tensor) and factor.dim() == 0:
            return factor
    return None


def _is_its_scale(scaler: Any, factor: Tensor) -> bool:
    scale = getattr(scaler, "_scale", None)
    if not isinstance(scale, Tensor):
        return False
    if scale.device != factor.device:  # a copy, of which only the value tells
        return float(scale) == float(factor)
    return scale.data_ptr() == factor.data_ptr()
