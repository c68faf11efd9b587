"""Alpha."""

import numpy as np

from cockpit.core.errors import Undefined
from cockpit.core.kinds import Cost
from cockpit.engine.line import Line
from cockpit.engine.needs import LINE, LOSSES, UPDATE, Need
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured, TwoStepQuantity

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
    rows = np.array([[1.0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 1, 2]])
    seen = np.array([*line.losses, *(slope * length for slope in line.slopes)])
    variances = np.array([*line.loss_variances, *(variance * length**2 for variance in line.slope_variances)])
    if not (np.isfinite(seen).all() and np.isfinite(variances).all()):
        raise Undefined("a loss or a slope is not finite")
    certain = np.maximum(variances, FLOOR + 1e-24 * variances.max())  # a ratio that least squares can carry
    scale = np.sqrt(certain.min() / certain)
    weights, *_ = np.linalg.lstsq(rows * scale[:, None], seen * scale, rcond=None)
    return float(weights[1]), float(weights[2])
