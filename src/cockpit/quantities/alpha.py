"""Alpha."""

from math import isfinite

import numpy as np

from cockpit.core.errors import Undefined
from cockpit.core.kinds import Cost
from cockpit.engine.line import Line
from cockpit.engine.needs import LINE, LOSSES, UPDATE, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured, TwoStepQuantity

ROWS = ((1.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, 2.0))  # loss, loss, slope, slope
EVEN = 1e-5  # weights within this ratio need no pivoting
FLOOR = 1e-300  # variance of a noiseless observation: infinitely certain against any other


class Alpha(TwoStepQuantity):
    r"""Where on the local parabola the step ended: -1 it did not move, 0 valley floor, +1 the opposite wall.

    Fits :math:`f(\tau) = w_0 + w_1\tau + w_2\tau^2` to losses and slopes at both ends of the step by least squares
    weighted with their variances (dissertation, Eq. C.4); the minimum is at :math:`\tau^* = -w_1 / 2w_2` and
    :math:`\alpha = T/\tau^* - 1` for a step of length :math:`T`. Without positive curvature: -1.
    Stored under the start.
    """

    cost = Cost.ECONOMY
    deferred = True

    @property
    def needs(self) -> frozenset[Need]:
        """Losses and slopes at both ends."""
        return frozenset({LOSSES, UPDATE, LINE})

    def measure(self, step: Observation) -> Measured:
        """Return alpha of the step that led here."""
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
    """Return w1 and w2 of the parabola over the unit interval (tau in units of the step's length)."""
    length = line.length
    seen = (*line.losses, *(slope * length for slope in line.slopes))
    variances = (*line.loss_variances, *(variance * length**2 for variance in line.slope_variances))
    if not all(map(isfinite, (*seen, *variances))):
        raise Undefined("a loss or a slope is not finite")
    floor = FLOOR + 1e-24 * max(variances)  # a ratio that least squares can carry
    certain = [max(variance, floor) for variance in variances]
    least = min(certain)
    scale = [(least / variance) ** 0.5 for variance in certain]
    if min(scale) > EVEN:
        return _small_least_squares(scale, seen)
    weights, *_ = np.linalg.lstsq(np.array(ROWS) * np.array(scale)[:, None], np.array(seen) * scale, rcond=None)
    return float(weights[1]), float(weights[2])


def _small_least_squares(scale: list[float], seen: tuple[float, ...]) -> tuple[float, float]:
    """By orthogonalising the columns, then the right-hand side: for four rows quicker than any library."""
    columns = [[weight * row[k] for weight, row in zip(scale, ROWS, strict=True)] for k in range(3)]
    columns.append([weight * value for weight, value in zip(scale, seen, strict=True)])
    factors: list[list[float]] = []
    for k in range(3):
        column = columns[k]
        square = sum(x * x for x in column)
        row = []
        for j in range(k + 1, 4):
            other = columns[j]
            factor = sum(x * y for x, y in zip(column, other, strict=True)) / square
            columns[j] = [y - factor * x for x, y in zip(column, other, strict=True)]
            row.append(factor)
        factors.append(row)
    second = factors[2][0]
    return factors[1][1] - factors[1][0] * second, second
