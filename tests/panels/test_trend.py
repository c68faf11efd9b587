"""The course of noisy curves."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import of

from cockpit.panels import View, panel
from cockpit.panels.trend import ENDS, quantiles


def noisy(count: int = 1200, scatter: float = 0.3) -> dict[int, float | None]:
    draw = np.random.default_rng(0)
    return {step: float(2 - step / 1000 + scatter * draw.normal()) for step in range(count)}


def test_a_band_holds_the_middle_of_the_values() -> None:
    values = noisy()
    shown = panel([of("Loss", values)], "loss", View(band=True, axis="linear")).datasets
    assert 40 <= len(shown["lines"]) <= 60
    inside = [row for row in shown["lines"] if 100 < row["step"] < 1100]
    assert [row["v"] for row in inside] == pytest.approx([2 - row["step"] / 1000 for row in inside], abs=0.3)
    widths = [row["w"] - row["v"] for row in shown["band"]]
    assert np.mean(widths) == pytest.approx(2 * 1.28 * 0.3, rel=0.25)
    assert {row["v"] for row in shown["raw"]}, "all values stay visible behind"
    assert (shown["lines"][0]["step"], shown["lines"][-1]["step"]) == (0, 1199)


def test_a_smooth_curve_and_a_short_one_stay_lines() -> None:
    assert not panel([of("Loss", noisy(1200, 0.001))], "loss", View(band=True)).datasets["band"]
    short = panel([of("Loss", noisy(40))], "loss", View(band=True)).datasets
    assert len(short["lines"]) == 40
    assert not short["band"]


def test_every_value_where_that_is_asked_for() -> None:
    shown = panel([of("Loss", noisy(300))], "loss", View()).datasets
    assert len(shown["lines"]) == 300
    smoothed = panel([of("Loss", noisy(300))], "loss", View(band=True, smoothing=0.9)).datasets
    assert not smoothed["band"], "smoothing takes the place of the band"


def test_values_that_lie_apart_are_drawn_as_they_are() -> None:
    """On a logarithmic axis the first steps have no neighbours to make a median of."""
    rows = panel([of("Loss", noisy(3000))], "loss", View(band=True, axis="log")).datasets["lines"]
    assert [row["step"] for row in rows[:3]] == [0, 1, 2]
    assert len(rows) < 200


def test_quantiles_of_all_buckets_at_once() -> None:
    draw = np.random.default_rng(1)
    values, starts = draw.normal(size=200), np.array([0, 1, 9, 30, 31, 150])
    slow = [np.quantile(part, ENDS) for part in np.split(values, starts[1:])]
    assert pytest.approx(np.array(slow)) == np.array(quantiles(values, starts)).T
