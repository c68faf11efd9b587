"""The settings that a search tries, one after the other: a trial's draw depends on its seed and its number alone."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from cockpit.results.sweeps.spaces import Axis

SEARCHES = ("random", "grid", "study")


def setting(search: str, seed: int, trial: int, axes: Mapping[str, Axis]) -> dict[str, Any]:
    """The values of one trial, fixed ones included.

    Args:
        search: One of ``SEARCHES``.
        seed: Of the tuning.
        trial: Its number, from 0.
        axes: Where to search.
    """
    if search == "grid":
        return dict(zip(axes, _product(tuple(axes.values()))[trial], strict=True))
    tuned = [name for name, axis in axes.items() if axis.tuned]
    numbers = iter((_studied if search == "study" else _philox)(seed, trial, len(tuned)))
    return {name: axis.at(next(numbers) if axis.tuned else 0.0) for name, axis in axes.items()}


def grid_size(axes: Mapping[str, Axis]) -> int:
    """How many settings a grid has; 0 where an axis says no number of values."""
    size = 1
    for axis in axes.values():
        size *= len(axis.grid())
    return size


@lru_cache(64)
def _product(axes: tuple[Axis, ...]) -> list[tuple[Any, ...]]:
    return list(product(*(axis.grid() for axis in axes)))


@lru_cache(10_000)
def _philox(seed: int, trial: int, count: int) -> tuple[float, ...]:
    """Numbers of [0, 1) that belong to this trial, whatever other trials there are."""
    key = np.array([seed, trial], dtype=np.uint64)
    drawn: list[float] = np.random.Generator(np.random.Philox(key=key)).random(max(count, 1)).tolist()
    return tuple(drawn[:count])


def _studied(seed: int, trial: int, count: int) -> tuple[float, ...]:
    """Numbers of the generator that the published study drew from: setting after setting, one a hyperparameter."""
    return _sequence(seed, -(-(trial + 1) * count // 1000) * 1000)[trial * count : (trial + 1) * count]


@lru_cache(64)
def _sequence(seed: int, length: int) -> tuple[float, ...]:
    drawn: list[float] = np.random.RandomState(seed).random_sample(length).tolist()
    return tuple(drawn)
