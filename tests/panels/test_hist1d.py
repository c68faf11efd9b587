"""Histograms of gradient elements."""

from __future__ import annotations

import numpy as np
from tests.panels.made import run

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import View, panel
from cockpit.panels.hist1d import centre, limits, merged, outliers


def narrow() -> Histogram:
    counts = np.zeros(100, np.int64)
    counts[45:55] = 7
    return Histogram((np.linspace(-2, 2, 101),), {"w": counts})


def test_bars_hold_all_counts() -> None:
    source = run()
    bars = panel([source], "hist1d").datasets["bars"]
    assert sum(row["v"] for row in bars) == source.histogram("GradHist1d", 78).counts.sum()
    assert sum(row["o"] for row in bars) == 2  # the outermost bins are told apart


def test_at_the_asked_step() -> None:
    source = run()
    bars = panel([source], "hist1d", View(step=11)).datasets["bars"]
    assert [row["v"] for row in bars] == [int(count) for count in source.histogram("GradHist1d", 10).counts if count]


def test_range_is_fixed_or_fits() -> None:
    assert limits([narrow()], "fixed") == (-2.0, 2.0)
    low, high = limits([narrow()], "auto")
    assert -0.3 < low < -0.2
    assert 0.2 < high < 0.3


def test_words_for_outliers() -> None:
    counts = np.zeros(100, np.int64)
    counts[[0, 49, 50, 99]] = (1, 40, 50, 9)
    assert outliers(Histogram((np.linspace(-2, 2, 101),), {"w": counts})) == "10% beyond ±2 · 90% next to 0"
    assert outliers(narrow()).startswith("nothing beyond ±2")


def test_bins_next_to_zero() -> None:
    assert centre(np.linspace(-2, 2, 101)) == slice(49, 51)
    assert centre(np.linspace(-1.5, 1.5, 4)) == slice(1, 2)  # 0 lies inside a bin


def test_merged_bins_keep_their_sum() -> None:
    counts, edges = merged(narrow(), 30)
    assert len(counts) == 25
    assert counts.sum() == 70
    assert edges[[0, -1]].tolist() == [-2.0, 2.0]


def test_heat_map_is_small_and_complete() -> None:
    source = Recorded([Record(step, "GradHist1d", Kind.HISTOGRAM, narrow()) for step in range(500)], "many")
    shown = panel([source], "hist1d-time")
    columns = {row["at"] for row in shown.datasets["cells"]}
    assert len(columns) <= 90
    assert {0, 499} <= columns
    assert sum(row["c"] for row in shown.datasets["cells"] if row["at"] == 499) == 70
