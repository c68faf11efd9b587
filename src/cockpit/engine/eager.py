"""Run compiled code eagerly while a step is tracked; several watched models share one switch."""

from typing import Any

import torch

_holders = 0
_stance: Any = None


def hold() -> None:
    """Compiled functions run eagerly from here on."""
    global _holders, _stance
    if _holders == 0:
        _stance = torch.compiler.set_stance("force_eager")
    _holders += 1


def release() -> None:
    """The last one to release puts the user's stance back."""
    global _holders, _stance
    _holders -= 1
    if _holders == 0 and _stance is not None:
        _stance.__exit__(None, None, None)
        _stance = None
