"""The step seen along its own direction."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineEnd:
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
