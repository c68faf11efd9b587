"""Seeded random batches from a few words: `make(normal(5), target=classes(3))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

Draw = Callable[[Generator, int], Tensor]  # (generator, samples) -> tensor


class Batch(NamedTuple):
    """The model's arguments (positional, or by keyword) and the target of the loss."""

    args: Any
    target: Tensor


def _shape(samples: int, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], samples, *shape[axis:])


def normal(*shape: int, axis: int = 0) -> Draw:
    """Standard normal numbers, the samples along `axis`."""
    return lambda g, n: torch.randn(_shape(n, shape, axis), generator=g, dtype=torch.float64)


def classes(count: int, *shape: int, axis: int = 0, ignored: float = 0.0) -> Draw:
    """Integers below `count`; about the share `ignored` of them is -100, and all of sample 1."""

    def draw(g: Generator, n: int) -> Tensor:
        value = torch.randint(count, _shape(n, shape, axis), generator=g)
        if ignored:
            value[torch.rand(value.shape, generator=g) < ignored] = -100
            value.select(axis, 1).fill_(-100)
        return value

    return draw


def probabilities(count: int) -> Draw:
    """Class probabilities [N, count]."""
    return lambda g, n: torch.randn(n, count, generator=g, dtype=torch.float64).softmax(-1)


def binary(*shape: int) -> Draw:
    """Zeros and ones, as floating-point numbers."""
    return lambda g, n: torch.randint(2, (n, *shape), generator=g).double()


def zeros(*shape: int) -> Draw:
    """Nothing but zeros."""
    return lambda g, n: torch.zeros(n, *shape, dtype=torch.float64)


def make(
    *args: Draw,
    target: Draw | None = None,
    sizes: tuple[int, ...] = (5, 5, 5),
    seed: int = 1,
    **kwargs: Draw,
) -> Callable[[], list[Batch]]:
    """A factory of batches; without `target` the first argument is the target (autoencoder)."""

    def batches() -> list[Batch]:
        g = Generator().manual_seed(seed)
        made = []
        for n in sizes:
            values: Any = tuple(draw(g, n) for draw in args)
            if kwargs:
                values = {key: draw(g, n) for key, draw in kwargs.items()}
            made.append(Batch(values, values[0] if target is None else target(g, n)))
        return made

    return batches


def spoil(batches: Callable[[], list[Batch]], index: int) -> Callable[[], list[Batch]]:
    """The same batches with one NaN in the first argument of one of them."""

    def spoiled() -> list[Batch]:
        made = batches()
        made[index].args[0][0, 0] = float("nan")
        return made

    return spoiled
