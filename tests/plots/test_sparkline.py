"""Lines of text that show a curve or a histogram."""

from __future__ import annotations

from math import nan

import numpy as np

from cockpit.plots import sparkline


def test_curve() -> None:
    assert sparkline.curve(range(8), range(8), range(8), 8) == sparkline.BLOCKS
    assert sparkline.curve([0, 1], [5, 5], [0, 1], 8) == "▄▄"
    assert sparkline.curve([0], [5], [0], 8) == "▄"
    assert sparkline.curve([], [], [0], 8) == ""
    assert sparkline.curve([0, 1, 2], [nan, 1, 2], [0, 1, 2], 8) == "!▁█"


def test_curve_is_blank_before_the_first_value() -> None:
    assert sparkline.curve([2, 3], [0, 1], range(4), 4) == "  ▁█"


def test_curve_by_the_logarithm_over_decades() -> None:
    straight = sparkline.curve(range(8), [10.0**k for k in range(8)], range(8), 8)
    assert straight == sparkline.BLOCKS


def test_curve_over_the_logarithm_of_steps() -> None:
    steps = [0, 1, 3, 7, 15, 31, 63, 127]
    assert sparkline.curve(steps, range(8), steps, 8, log_steps=True) == sparkline.BLOCKS


def test_a_constant_is_flat() -> None:
    """Though the mean of equal numbers may not be exactly that number."""
    assert sparkline.curve(range(25), [0.05] * 25, range(25), 12) == "▄" * 12


def test_bars() -> None:
    assert sparkline.bars(np.array([0.0, 1.0, 1e6, 0.0]), 4) == " ▁█ "
    assert len(sparkline.bars(np.ones(100), 28)) == 28
