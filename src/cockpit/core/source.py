"""What the reading side asks of a run, wherever it lies: on disk, in memory, in a log of the paper's tool."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind

Steps = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Series:
    """One number at each step; NaN where it is undefined."""

    steps: Steps  # [S], increasing
    values: Values  # [S]

    def __len__(self) -> int:
        return len(self.steps)

    def defined(self) -> "Series":
        """Leave out the steps without a finite number."""
        there = np.isfinite(self.values)
        return Series(self.steps[there], self.values[there])


@dataclass(frozen=True, slots=True)
class Parts:
    """One number for each parameter at each step; NaN where it is undefined or a parameter was not there."""

    steps: Steps  # [S], increasing
    keys: tuple[str, ...]  # [P], in the order of the model's parameters
    values: Values  # [S, P]

    def __len__(self) -> int:
        return len(self.steps)


class Source(Protocol):
    """A run as series; steps are in order and never double."""

    @property
    def name(self) -> str:
        """What to call the run."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What is known about the run; may be empty."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Everything that was recorded, in the order of its first appearance."""

    def scalar(self, name: str) -> Series:
        """A scalar as it is, a per-parameter value as its total; empty for any other kind or an unknown name."""

    def parts(self, name: str) -> Parts:
        """A per-parameter value; empty for any other kind or an unknown name."""

    def detail(self, name: str, key: str) -> Series:
        """A number that belongs to a value, e.g. its standard error; of a number per parameter the root of squares."""

    def constant(self, name: str, key: str) -> str | None:
        """A word that belongs to a value, e.g. which curvature was used; the last one, None if there is none."""

    def counted(self, name: str) -> Steps:
        """The steps that have a histogram, or values per sample."""

    def histogram(self, name: str, step: int) -> Histogram:
        """The histogram of one of these steps."""

    def samples(self, name: str, step: int) -> Values:
        """The values per sample at one of these steps."""

    def reasons(self, name: str) -> Mapping[str, list[int]]:
        """Why a value was undefined, and at which steps."""


def total(values: Values, rule: str) -> Values:
    """Total of the last axis: ``"sum"``, or else the root of the sum of squares; NaN if a part is missing, or all."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)  # undefined at every step: a sum of nothing is no 0
    summed: Values = values.sum(-1) if rule == "sum" else np.sqrt(np.square(values).sum(-1))
    return summed


def taken(reached: int | None, recorded: int | None) -> int | None:
    """The last step that was taken.

    Args:
        reached: How many steps the training says it has taken: the number of the next one.
        recorded: The last step with a record; it may be ahead of what the training has said, or be left from before
            the run was continued at an earlier step.
    """
    if reached is None or reached == recorded:
        return recorded
    return reached - 1 if reached > 0 else None
