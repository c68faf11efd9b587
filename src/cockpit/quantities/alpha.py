"""Alpha."""

from math import isfinite

from cockpit.core.errors import Undefined
from cockpit.core.kinds import Cost
from cockpit.engine.needs import LINE, LOSSES, UPDATE, Need
from cockpit.engine.observation import Observation
from cockpit.engine.step.line import Line
from cockpit.quantities._base import Measured, TwoStepQuantity


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


def fit(line: Line) -> tuple[float, float]:
    """Return w1 and w2 of the parabola over the unit interval (tau in units of the step's length).

    The unknown w0 only takes the two losses to their difference, the sum of w1 and w2. With the slopes w1 and w1 + 2 w2
    there is one observation too many: its contradiction is shared among the three in proportion to their variances.
    """
    length, start, end = line
    first, last = start.slope * length, end.slope * length
    of_first, of_last = (variance * (length * length) for variance in (start.slope_variance, end.slope_variance))
    rise, of_rise = end.loss - start.loss, start.loss_variance + end.loss_variance
    if not all(map(isfinite, (first, last, of_first, of_last, rise, of_rise))):
        raise Undefined("a loss or a slope is not finite")
    largest = max(of_first, of_last, of_rise)
    if largest <= 0:  # nothing is noisy: all weigh the same
        of_first, of_last, of_rise, largest = 1.0, 1.0, 2.0, 1.0
    return _shared(first, last, rise, of_first / largest, of_last / largest, of_rise / largest)  # none too small to add


def _shared(
    first: float, last: float, rise: float, of_first: float, of_last: float, of_rise: float
) -> tuple[float, float]:
    """The contradiction among two slopes and a rise, shared in proportion to their variances."""
    share = (first + last - 2 * rise) / (of_first + of_last + 4 * of_rise)
    slope = first - of_first * share
    return slope, (last - of_last * share - slope) / 2
