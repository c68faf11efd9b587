"""Thinning keeps what the eye looks for."""

from __future__ import annotations

import numpy as np
import pytest

from cockpit.core.source import Series
from cockpit.panels.thin import chosen, thin, window


def noisy(count: int = 5000, seed: int = 0) -> Series:
    return Series(np.arange(count), np.random.default_rng(seed).normal(size=count))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("points", [8, 60, 600])
def test_extremes_and_ends_stay(points: int, log: bool) -> None:
    series = noisy()
    kept = thin(series, points, log)
    assert len(kept) <= points
    assert kept.steps[0] == 0
    assert kept.steps[-1] == 4999
    assert kept.values.min() == series.values.min()
    assert kept.values.max() == series.values.max()
    assert (kept.values == series.values[kept.steps]).all()
    assert (np.diff(kept.steps) > 0).all()


def test_each_bucket_keeps_its_minimum_and_maximum() -> None:
    series = noisy(1000)
    kept = set(chosen(series, 42, log=False).tolist())
    for bucket in np.array_split(np.arange(1000), 20):  # (42 - 2) / 2 buckets of 50 steps
        inside = [step for step in bucket if 50 * (bucket[0] // 50) <= step]
        assert int(inside[np.argmin(series.values[inside])]) in kept
        assert int(inside[np.argmax(series.values[inside])]) in kept


def test_buckets_are_even_on_the_axis_in_use() -> None:
    series = noisy(10_000)
    early = [int((thin(series, 100, log).steps < 100).sum()) for log in (False, True)]
    assert early[0] < 5
    assert early[1] > 30  # half of a log axis lies before step 100


def test_a_spike_is_never_lost() -> None:
    values = np.zeros(100_000)
    values[71_234] = 1.0
    assert 71_234 in thin(Series(np.arange(100_000), values), 60).steps


def test_few_points_stay_as_they_are() -> None:
    series = noisy(50)
    assert thin(series, 60).steps.tolist() == series.steps.tolist()
    assert len(thin(Series(np.arange(0), np.empty(0)), 60)) == 0


def test_one_point_beyond_each_border() -> None:
    steps = np.arange(0, 100, 10)
    assert steps[window(steps, (25, 55))].tolist() == [20, 30, 40, 50, 60]
    assert steps[window(steps, (-5, 500))].tolist() == steps.tolist()
    assert thin(Series(steps, steps.astype(float)), 60, span=(25, 55)).steps.tolist() == [20, 30, 40, 50, 60]
