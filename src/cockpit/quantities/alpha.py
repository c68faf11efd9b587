"""Alpha."""

from math import isfinite
from typing import TypeVar

import numpy as np

from cockpit.core.errors import Undefined
from cockpit.core.kinds import Cost
from cockpit.engine.block import Block, Lines, finite
from cockpit.engine.line import Line
from cockpit.engine.needs import LINE, LOSSES, UPDATE, Need
from cockpit.engine.numbers import Values
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured, Series, TwoStepQuantity

Number = TypeVar("Number", float, Values)  # of one line, or of several


class Alpha(TwoStepQuantity):
    r"""Where the step ended on a local parabola: -1 at its start, 0 on the valley floor, +1 on the opposite wall.

    Fits :math:`f(\tau) = w_0 + w_1\tau + w_2\tau^2` to losses and slopes at both ends of the step by least squares
    weighted with their variances (dissertation, Eq. C.4); the minimum is at :math:`\tau^* = -w_1 / 2w_2` and
    :math:`\alpha = T/\tau^* - 1` for a step of length :math:`T`. Without positive curvature: -1.
    Stored at the step it starts from.
    """

    cost = Cost.ECONOMY
    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """Losses and slopes at both ends of the step."""
        return frozenset({LOSSES, UPDATE, LINE})

    def measure(self, step: Observation) -> Measured:
        """Return alpha of the step that ended here."""
        if not isinstance(step.line, Line):
            raise Undefined(step.line or "the step before was not tracked")
        slope, curvature = fit(step.line)
        details = {"length": step.line.length, "slope": slope, "curvature": curvature}
        if curvature <= 0:
            return Measured(-1.0, details)
        if slope == 0:
            raise Undefined("the step began at the bottom of the parabola")
        return Measured(-2 * curvature / slope - 1, details)

    def measure_together(self, block: Block) -> Series:
        """Return alpha of each step of a block."""
        if block.lines is None:
            raise Undefined("the steps before were not all tracked")
        slope, curvature = fit_together(block.lines)
        alpha = finite(np.where(curvature <= 0, -1.0, -2 * curvature / slope - 1))
        numbers = zip(block.lines.lengths.tolist(), slope.tolist(), curvature.tolist(), strict=True)
        details = [{"length": length, "slope": w1, "curvature": w2} for length, w1, w2 in numbers]
        return Series(alpha.tolist(), details)


def fit(line: Line) -> tuple[float, float]:
    """Return w1 and w2 of the parabola over the unit interval (tau in units of the step's length).

    The unknown w0 only takes the two losses to their difference, the sum of w1 and w2. With the slopes w1 and w1 + 2 w2
    there is one observation too many: its contradiction is shared among the three in proportion to their variances.
    """
    length = line.length
    first, last = (slope * length for slope in line.slopes)
    of_first, of_last = (variance * (length * length) for variance in line.slope_variances)
    rise, of_rise = line.losses[1] - line.losses[0], line.loss_variances[0] + line.loss_variances[1]
    if not all(map(isfinite, (first, last, of_first, of_last, rise, of_rise))):
        raise Undefined("a loss or a slope is not finite")
    largest = max(of_first, of_last, of_rise)
    if largest <= 0:  # nothing is noisy: all weigh the same
        of_first, of_last, of_rise, largest = 1.0, 1.0, 2.0, 1.0
    return _shared(first, last, rise, of_first / largest, of_last / largest, of_rise / largest)  # none too small to add


def fit_together(lines: Lines) -> tuple[Values, Values]:
    """The same for several lines, all of them finite and noisy."""
    lengths, squares = lines.lengths, lines.lengths * lines.lengths
    (loss, slope, of_loss, of_slope), (loss_then, slope_then, of_loss_then, of_slope_then) = lines.starts, lines.ends
    first, last, of_first, of_last = slope * lengths, slope_then * lengths, of_slope * squares, of_slope_then * squares
    rise, of_rise = loss_then - loss, of_loss + of_loss_then
    finite(np.array([first, last, of_first, of_last, rise, of_rise]))
    largest = np.maximum(np.maximum(of_first, of_last), of_rise)
    if (largest <= 0).any():
        raise Undefined("a line has no noise")
    return _shared(first, last, rise, of_first / largest, of_last / largest, of_rise / largest)


def _shared(
    first: Number, last: Number, rise: Number, of_first: Number, of_last: Number, of_rise: Number
) -> tuple[Number, Number]:
    """The contradiction among two slopes and a rise, shared in proportion to their variances."""
    share = (first + last - 2 * rise) / (of_first + of_last + 4 * of_rise)
    slope = first - of_first * share
    return slope, (last - of_last * share - slope) / 2
