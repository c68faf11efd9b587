"""Numbers that differ from run to run: float64 among themselves, a column where they meet a tensor of all runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Each:
    """A number for each run, or one number for all of them.

    Formulas are written as if there were one run: ``lr * momentum / (v + eps)``. What has nothing to do with a tensor
    is computed in float64, in the same way for one run as for many; a tensor's first axis is that of the runs. Rounding
    never depends on the place of a run: only operations that round correctly are used, and powers are Python's.
    """

    __array_ufunc__ = None  # numpy leaves the arithmetic to this class
    __slots__ = ("values",)

    def __init__(self, values: Sequence[float] | NDArray[Any]) -> None:
        self.values = np.asarray(values)

    def on(self, tensor: Tensor) -> Any:
        """What a tensor is multiplied with: a Python number, or a column of the tensor's type."""
        if len(self.values) == 1:
            return self.values.item()
        kind = self.values.dtype if self.values.dtype == np.bool_ else np.float64
        column = torch.from_numpy(np.ascontiguousarray(self.values, kind)).view(-1, *[1] * (tensor.ndim - 1))
        return column.to(tensor.device, None if kind == np.bool_ else tensor.dtype)

    def __pow__(self, exponent: float) -> Each:
        return Each(np.array([value**exponent for value in self.values.tolist()]))

    def __add__(self, other: Any) -> Any:
        return self._with(other, np.add, torch.add)

    def __radd__(self, other: Any) -> Any:
        return self._after(other, np.add, torch.add)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, np.subtract, torch.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._after(other, np.subtract, torch.sub)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, np.multiply, torch.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._after(other, np.multiply, torch.mul)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, np.divide, torch.div)

    def __rtruediv__(self, other: Any) -> Any:
        return self._after(other, np.divide, torch.div)

    def __rmod__(self, other: float) -> Each:
        return Each(np.mod(other, self.values))

    def __ge__(self, other: float) -> Each:
        return Each(self.values >= other)

    def equals(self, other: float) -> Each:
        """Whether it is that number."""
        return Each(self.values == other)

    def root(self) -> Each:
        """The square root."""
        with np.errstate(all="ignore"):
            return Each(np.sqrt(self.values))

    def _with(self, other: Any, numbers: np.ufunc, tensors: Callable[..., Tensor]) -> Any:
        if isinstance(other, Tensor):
            mine = self.on(other)
            return tensors(mine if isinstance(mine, Tensor) else _number(mine, other), other)
        return self._computed(numbers, self.values, other.values if isinstance(other, Each) else other)

    def _after(self, other: Any, numbers: np.ufunc, tensors: Callable[..., Tensor]) -> Any:
        if isinstance(other, Tensor):
            return tensors(other, self.on(other))
        return self._computed(numbers, other, self.values)

    @staticmethod
    def _computed(numbers: np.ufunc, first: Any, second: Any) -> Each:
        with np.errstate(all="ignore"):
            return Each(numbers(first, second))

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let torch's functions and a tensor's operators take it as the column that it is."""
        tensor = next(one for one in args if isinstance(one, Tensor))
        return function(*(one.on(tensor) if isinstance(one, Each) else one for one in args), **(kwargs or {}))


def _number(value: float, beside: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=beside.dtype, device=beside.device)


def sqrt(value: Any) -> Any:
    """The square root of a tensor, or of each run's number."""
    return value.root() if isinstance(value, Each) else torch.sqrt(value)


def where(condition: Each, then: Any, otherwise: Any) -> Any:
    """Choose, run by run, between tensors or between numbers."""
    if not isinstance(then, Tensor):
        pair = [one.values if isinstance(one, Each) else one for one in (then, otherwise)]
        return Each(np.where(condition.values, *pair))
    chosen = condition.on(then)
    return torch.where(chosen, then, otherwise) if isinstance(chosen, Tensor) else then if chosen else otherwise
