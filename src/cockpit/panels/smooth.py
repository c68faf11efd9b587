"""Exponential smoothing that does not lean on its first value."""

import numpy as np

from cockpit.core.source import Series, Values


def smooth(series: Series, weight: float) -> Series:
    """Replace each value by the exponential mean of itself and all before, ``weight`` being that of the past.

    The mean is debiased: weights are divided by their sum, so it starts at the first value and not at 0.
    """
    if weight == 0 or len(series) < 2:
        return series
    sums, weights = _decayed(series.values, weight), _decayed(np.ones(len(series)), weight)
    return Series(series.steps, sums / weights)


def _decayed(values: Values, weight: float) -> Values:
    """Sum over j <= k of ``weight ** (k - j) * values[j]``, in blocks short enough for the powers not to overflow."""
    block = max(int(200 / -np.log(weight)), 1)
    result: Values = np.empty(len(values))
    carried = 0.0
    for begin in range(0, len(values), block):
        part = values[begin : begin + block]
        powers = weight ** np.arange(1, len(part) + 1, dtype=np.float64)
        result[begin : begin + block] = powers * (np.cumsum(part / powers) + carried)
        carried = result[begin + len(part) - 1]
    return result
