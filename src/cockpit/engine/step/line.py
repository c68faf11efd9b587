"""The step seen along its own direction."""

from dataclasses import dataclass
from typing import NamedTuple

import torch


class LineEnd(NamedTuple):
    """Loss and slope at one end of a step, and the variance of their means."""

    loss: float
    slope: float
    loss_variance: float
    slope_variance: float


@dataclass(frozen=True, slots=True)
class Line:
    """Losses, slopes and their noise at the two ends of a step."""

    step: int
    length: float
    losses: tuple[float, float]
    slopes: tuple[float, float]
    loss_variances: tuple[float, float]
    slope_variances: tuple[float, float]

    @classmethod
    def between(cls, step: int, length: float, start: LineEnd, end: LineEnd) -> "Line":
        """Join both ends."""
        return cls(
            step,
            length,
            (start.loss, end.loss),
            (start.slope, end.slope),
            (start.loss_variance, end.loss_variance),
            (start.slope_variance, end.slope_variance),
        )


def unseen_by(half: torch.dtype | None) -> float:
    """How far the sum of the samples' losses may be from the whole loss by rounding alone."""
    return 1e-3 if half is None else 5e-2
