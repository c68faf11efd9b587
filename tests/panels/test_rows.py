"""Rows that JSON can hold."""

from __future__ import annotations

import numpy as np
import pytest

from cockpit.panels.rows import number, short, table


def test_rows_from_columns() -> None:
    assert table(a=np.array([1, 2]), b=np.array([0.5, 1 / 3]), c="x") == [
        {"a": 1, "b": 0.5, "c": "x"},
        {"a": 2, "b": 0.33333, "c": "x"},
    ]


def test_rounding_keeps_significant_digits() -> None:
    values = np.array([123456.7, -1.234567e-30, 0.0, 5e-324, 1.7e308])
    np.testing.assert_allclose(short(values), values, rtol=1e-4)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(AssertionError):
        table(a=np.array([np.nan]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(0, "0"), (0.0123, "0.0123"), (12345.0, "12.3k"), (2.5e-5, "2.5e-5"), (3e7, "30M"), (-0.5, "-0.5")],
        *[(1234, "1234"), (float("nan"), "NaN"), (float("-inf"), "-inf"), (1e15, "1.0e15")],
    ],
)
def test_short_numbers(value: float, text: str) -> None:
    assert number(value) == text
