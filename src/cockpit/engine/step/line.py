"""The step seen along its own direction."""

from typing import NamedTuple

import torch


class LineEnd(NamedTuple):
    """Loss and slope at one end of a step, and the variance of their means."""

    loss: float
    slope: float
    loss_variance: float
    slope_variance: float


class Line(NamedTuple):
    """A step and its two ends."""

    length: float
    start: LineEnd
    end: LineEnd


def unseen_by(half: torch.dtype | None) -> float:
    """How far the sum of the samples' losses may be from the whole loss by rounding alone."""
    return 1e-3 if half is None else 5e-2
