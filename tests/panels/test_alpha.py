"""Alpha: the numbers on the panel against slow, obvious ones."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import of

from cockpit.core.source import Series
from cockpit.panels import View, panel
from cockpit.panels.alpha import floor_rate, last_tenth, summary


def alphas(count: int = 200, seed: int = 0) -> dict[int, float | None]:
    return {step: float(value) for step, value in enumerate(np.random.default_rng(seed).normal(0.3, 1, count))}


def test_means_over_all_and_over_the_last_tenth() -> None:
    values = alphas()
    shown = panel([of("Alpha", values)], "alpha")
    means = {row["k"]: row["mean"] for row in shown.datasets["means"]}
    late = [value for step, value in values.items() if step >= 0.9 * 199]
    assert means["all"] == pytest.approx(sum(v for v in values.values() if v is not None) / len(values))
    assert means["last"] == pytest.approx(np.mean(late))


def test_bars_are_shares_of_steps() -> None:
    values = alphas()
    shown = panel([of("Alpha", values)], "alpha")
    bars = [row for row in shown.datasets["bars"] if row["k"] == "all"]
    assert sum(row["v"] for row in bars) == pytest.approx(1.0, abs=1e-3)
    row = bars[len(bars) // 2]
    inside = [v for v in values.values() if v is not None and row["x"] <= v < row["x2"]]
    assert row["v"] == pytest.approx(len(inside) / len(values), rel=1e-3)


def test_steps_beyond_the_limits_count_in_the_outermost_bins() -> None:
    shown = panel([of("Alpha", {0: 50.0, 1: -50.0, 2: 0.0, 3: 0.1})], "alpha")
    bars = {(row["x"], row["v"]) for row in shown.datasets["bars"] if row["k"] == "all"}
    assert bars == {(-2.0, 0.25), (0.0, 0.5), (1.8, 0.25)}


def test_summary() -> None:
    found = summary(np.array([-1.0, 0.0, 0.5, 1.0, 2.0]))
    assert found.mean == pytest.approx(0.5)
    assert found.median == 0.5
    assert (found.low, found.high) == (0.0, 1.0)
    assert found.beyond == pytest.approx(0.2)


def test_last_tenth_is_of_training_not_of_tracked_steps() -> None:
    steps = np.array([0, 1, 2, 4, 8, 100, 950, 1000])
    assert last_tenth(Series(steps, steps * 1.0)).steps.tolist() == [950, 1000]


def test_learning_rate_that_leads_to_the_floor() -> None:
    steps = np.arange(100)
    overshooting = Series(steps, np.full(100, 1.0))
    rates = Series(steps, np.full(100, 0.4))
    assert floor_rate(overshooting, rates) == pytest.approx(0.2)  # half the step ends on the floor
    assert floor_rate(Series(steps, np.full(100, -1.0)), rates) is None  # no multiple of a step that did not move
    assert floor_rate(overshooting, Series(steps[:0], np.empty(0))) is None


def test_note_tells_share_beyond_and_rate() -> None:
    values: dict[int, float | None] = {step: 1.5 if step % 4 == 0 else 0.0 for step in range(401)}
    shown = panel([of("Alpha", values, learning_rate={0: 0.1})], "alpha")
    assert "27% beyond +1" in shown.note  # 11 of the 41 steps from 360 on
    assert "learning rate for Alpha = 0: 0.1" in shown.note


def test_undefined_values_are_counted() -> None:
    values = alphas(20) | {5: None, 6: None}
    shown = panel([of("Alpha", values, "the batch size is unknown")], "alpha")
    assert "Alpha undefined at 2 steps · the batch size is unknown" in shown.note


def test_medians_over_time() -> None:
    shown = panel([of("Alpha", alphas(2000))], "alpha-time", View(axis="linear"))
    rows = shown.datasets["lines"]
    assert 20 <= len(rows) <= 40
    assert all(row["low"] <= row["v"] <= row["high"] for row in rows)
    assert np.mean([row["v"] for row in rows]) == pytest.approx(0.3, abs=0.1)
    assert len(shown.datasets["dots"]) <= 300
    assert all(-2 <= row["v"] <= 2 for row in shown.datasets["dots"])
