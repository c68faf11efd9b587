"""Ticks and limits."""

from __future__ import annotations

import numpy as np
import pytest

from cockpit.panels.axes import even_ticks, fitted, log_ticks


@pytest.mark.parametrize(("low", "high"), [(1e-12, 1e9), (0.2, 50), (0.11, 0.19), (1, 1.05), (3, 7), (1e-3, 1e4)])
def test_log_axes_have_a_few_ticks_inside(low: float, high: float) -> None:
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 7
    assert all(low <= tick <= high for tick in ticks)
    assert list(ticks) == sorted(ticks)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 8), (0.971, 0.974), (-1e6, 1e6), (100, 101)])
def test_even_axes_have_a_few_ticks_inside(low: float, high: float) -> None:
    ticks = even_ticks(low, high)
    assert 2 <= len(ticks) <= 9
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)


def test_log_only_where_it_works() -> None:
    assert fitted([np.array([1.0, 1000.0])]).type == "log"
    assert fitted([np.array([1.0, 10.0])]).type == "linear"
    assert fitted([np.array([1.0, 10.0])], "log").type == "log"
    assert fitted([np.array([-1.0, 10.0])], "log").type == "linear"
    assert fitted([np.array([0.0, 0.0])], "log").type == "linear"
    assert fitted([np.array([0.0, 5.0])], "log").type == "log"


@pytest.mark.parametrize("values", [[], [0.0], [3.0, 3.0], [np.nan], [np.inf, 1.0], [5e-324], [1e308, 1.0]])
def test_odd_values_give_an_axis(values: list[float]) -> None:
    for scale in ("auto", "log", "linear"):
        axis = fitted([np.array(values)], scale)  # type: ignore[arg-type]
        assert np.isfinite([axis.low, axis.high]).all()
        assert axis.low < axis.high


def test_marks_replace_ticks_that_are_close() -> None:
    axis = fitted([np.array([0.1, 10.0])], "log").with_ticks((0.9, 500.0))
    assert 0.9 in axis.ticks
    assert 1.0 not in axis.ticks
    assert 500.0 not in axis.ticks
