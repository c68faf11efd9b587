"""Forward hooks of ours on a user's model."""

from collections.abc import Callable
from contextlib import nullcontext
from inspect import ismethod
from typing import Any
from weakref import WeakMethod

import torch


class Hook:
    """A forward hook that keeps nothing alive, and does nothing in a copied or saved model."""

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = WeakMethod(call) if ismethod(call) else lambda: call

    def __call__(self, *args: Any) -> None:
        """Pass the call on; a model compiled in the loop traces this, and nothing of it stays in the code."""
        call = None if torch.compiler.is_compiling() else self._call()
        if call is not None:
            call(*args)

    def __deepcopy__(self, memo: Any) -> Any:
        return nullcontext().__exit__  # takes anything, does nothing, and needs no cockpit to be loaded

    def __reduce__(self) -> Any:
        return getattr, (nullcontext(), "__exit__")
