"""Smoothing against the sum it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from cockpit.core.source import Series
from cockpit.panels.smooth import smooth


def slow(values: np.ndarray, weight: float) -> list[float]:
    result = []
    for last in range(len(values)):
        weights = [weight ** (last - at) for at in range(last + 1)]
        result.append(float(np.dot(weights, values[: last + 1]) / sum(weights)))
    return result


@pytest.mark.parametrize("weight", [0.01, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("count", [2, 700])
def test_equals_the_weighted_mean(weight: float, count: int) -> None:
    values = np.random.default_rng(0).normal(size=count)
    smoothed = smooth(Series(np.arange(count), values), weight)
    np.testing.assert_allclose(smoothed.values, slow(values, weight), rtol=1e-9, atol=1e-12)


def test_no_smoothing_changes_nothing() -> None:
    series = Series(np.arange(3), np.array([1.0, 5.0, 2.0]))
    assert smooth(series, 0.0) is series


def test_starts_at_the_first_value() -> None:
    assert smooth(Series(np.arange(2), np.array([3.0, 3.0])), 0.99).values.tolist() == pytest.approx([3.0, 3.0])
