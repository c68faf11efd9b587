"""Calls of the compiled loops, which can be written down and made again."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import local
from typing import Any

import torch
from torch import Tensor

from cockpit.engine.native.build import library, team

POINTER, WHOLE, FLAG, SINGLE, DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float, ctypes.c_double
LARGE = 2**16  # numbers from which on a second thread saves more than it costs to wake it
BINS = [POINTER, WHOLE, SINGLE, WHOLE, WHOLE]
SIGNATURES: dict[str, list[Any]] = {
    "outer_counts": [*[POINTER, WHOLE] * 2, *[WHOLE] * 3, *BINS, POINTER, FLAG],
    "joint_counts": [*[POINTER, WHOLE] * 2, POINTER, *[WHOLE] * 3, *BINS, *BINS, POINTER, FLAG],
    "pair_counts": [POINTER, *[WHOLE] * 3, POINTER, WHOLE, *BINS, POINTER, FLAG],
    "scan": [POINTER, *[WHOLE] * 3, POINTER, WHOLE, *BINS, POINTER, POINTER, WHOLE, POINTER, POINTER, FLAG],
    "pair_products": [*[POINTER] * 5, *[WHOLE] * 4, DOUBLE, *[POINTER] * 3, FLAG],
    "row_products": [*[POINTER, WHOLE] * 2, WHOLE, WHOLE, DOUBLE, POINTER],
    "moments": [POINTER, FLAG, POINTER, WHOLE, WHOLE, POINTER],
    "row_sums": [POINTER, WHOLE, WHOLE, POINTER],
    "shares": [POINTER, WHOLE, POINTER, DOUBLE, POINTER, POINTER],
    "scaled": [POINTER, WHOLE, SINGLE, POINTER],
    "stacked": [POINTER, WHOLE, WHOLE, POINTER],
    "cross_entropy": [POINTER, POINTER, *[WHOLE] * 3, POINTER],
    "scatter": [POINTER, POINTER, WHOLE, WHOLE, POINTER],
    "centres": [POINTER, WHOLE, WHOLE, POINTER],
    "vector_sums": [*[POINTER] * 3, WHOLE, FLAG, POINTER, FLAG],
    "motion": [*[POINTER] * 5, WHOLE, WHOLE, POINTER, FLAG],
    "mix_rows": [POINTER, *[WHOLE] * 3, POINTER, FLAG],
    "orthogonalise": [POINTER, *[WHOLE] * 3, POINTER, POINTER, FLAG, FLAG],
    "noise_to_curvature": [POINTER, POINTER, WHOLE, DOUBLE, POINTER, FLAG],
    "signal_to_noise": [POINTER, POINTER, WHOLE, *[DOUBLE] * 3, POINTER, FLAG],
    "picked_formed": [POINTER, WHOLE, *[POINTER] * 3, SINGLE, *[WHOLE] * 3, POINTER, FLAG],
    "picked_squares": [POINTER, WHOLE, *[POINTER] * 6, WHOLE, *[POINTER] * 3, FLAG],
    "picked_back": [POINTER, WHOLE, *[POINTER] * 9, WHOLE, POINTER, FLAG],
    "picked_by_channel": [POINTER, WHOLE, *[POINTER] * 4, FLAG],
    "picked_by_position": [POINTER, WHOLE, *[POINTER] * 7, FLAG],
    "picked_forward": [POINTER, WHOLE, *[POINTER] * 9, FLAG],
    "picked_weights": [POINTER, WHOLE, *[POINTER] * 11, FLAG],
    "picked_data": [POINTER, WHOLE, *[POINTER] * 13, FLAG],
    "pack": [*[POINTER] * 3, WHOLE, POINTER],
}

Witness = Callable[[Any, tuple[Any, ...]], None]  # is told which function was called, and with what


class _Witnesses(local):
    """Of the calls of one thread: what runs in another one is no part of what is written down."""

    def __init__(self) -> None:
        self.known: list[Witness] = []


_witnesses = _Witnesses()


class Pointers:
    """An array of addresses, looked up when a call is made."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: Sequence[Tensor | None]) -> None:
        self.tensors = tensors

    def array(self) -> Any:
        """The addresses."""
        return (POINTER * len(self.tensors))(*[None if t is None else t.data_ptr() for t in self.tensors])


def threads(work: int = LARGE) -> int:
    """For a loop over so many numbers."""
    return torch.get_num_threads() if work >= LARGE and team() is not None else 1


def whole_numbers(values: Sequence[int]) -> Any:
    """An array of integers, quicker to make than a tensor."""
    return (WHOLE * len(values))(*values)


def call(name: str, *arguments: Any) -> None:
    """Call a loop; tensors are passed by their addresses."""
    function = _function(name)
    _make(function, arguments)
    for witness in _witnesses.known:
        witness(function, arguments)


def repeated(
    function: Any, arguments: tuple[Any, ...], origin: Callable[[Tensor], tuple[Tensor, int] | None]
) -> Callable[[], None]:
    """The same call again, prepared: only addresses that move are asked for.

    ``origin``: the tensor that tells where another one has moved to, and how many bytes behind it that begins; None if
    it stays where it is.
    """
    given = [a.data_ptr() if isinstance(a, Tensor) else a.array() if isinstance(a, Pointers) else a for a in arguments]
    moving: list[tuple[Any, int, Tensor, int]] = []  # where the address belongs, and what it is
    for place, argument in enumerate(arguments):
        own = argument.tensors if isinstance(argument, Pointers) else [argument]
        array, first = (given[place], 0) if isinstance(argument, Pointers) else (given, place)
        for k, tensor in enumerate(own, first):
            moved = origin(tensor) if isinstance(tensor, Tensor) else None
            if moved is not None:
                moving.append((array, k, *moved))

    def again(kept: object = arguments) -> None:  # or what they point to would be gone
        for array, place, source, behind in moving:
            array[place] = source.data_ptr() + behind
        if function(*given):
            raise MemoryError("no memory for sums")

    return again


@contextmanager
def witnessed(witness: Witness) -> Iterator[None]:
    """Tell of every call."""
    _witnesses.known.append(witness)
    try:
        yield
    finally:
        _witnesses.known.remove(witness)


def _make(function: Any, arguments: tuple[Any, ...]) -> None:
    given = [a.data_ptr() if isinstance(a, Tensor) else a.array() if isinstance(a, Pointers) else a for a in arguments]
    if function(*given):
        raise MemoryError("no memory for sums")


@cache
def _function(name: str) -> Any:
    loops = library()
    assert loops is not None  # asked by ``usable``
    function = loops[name]
    function.argtypes, function.restype = SIGNATURES[name], FLAG
    return function
