"""Histograms, layer by layer."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import run

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import Panel, View, layers


def shown(name: str, source: Recorded | None = None, view: View | None = None) -> dict[str, Panel]:
    return {made.id.split("-")[1]: made for made in layers(source or run(), view or View(), name)}


def test_views_depend_on_the_number_of_axes() -> None:
    assert list(shown("GradHist1d")) == ["ridge", "bins", "away", "bytype"]
    assert list(shown("GradHist2d")) == ["cloud", "parameters", "gradients"]


def test_shares_of_a_layer() -> None:
    source = run()
    parts = source.histogram("GradHist1d", 78).parts
    counts = parts["3.weight"] + parts["3.bias"]
    cells = [row for row in shown("GradHist1d", source)["bins"].datasets["cells"] if row["r"] == 1]
    assert sum(row["c"] for row in cells) == pytest.approx(1.0, abs=1e-3)
    joined = counts.reshape(50, 2).sum(1) / counts.sum()  # pairs of bins: at most 50 cells in a row
    assert [row["c"] for row in cells] == pytest.approx(joined[joined > 0].tolist(), rel=1e-3)


def test_marginals_of_a_layer() -> None:
    source = run()
    parts = source.histogram("GradHist2d", 78).parts
    counts = parts["0.weight"] + parts["0.bias"]
    for view, axis in (("parameters", 0), ("gradients", 1)):
        cells = [row["c"] for row in shown("GradHist2d", source)[view].datasets["cells"] if row["r"] == 0]
        share = counts.sum(axis) / counts.sum()
        assert cells == pytest.approx(share[share > 0].tolist(), rel=1e-3)


def test_share_away_from_zero() -> None:
    live, dead = np.zeros(100, np.int64), np.zeros(100, np.int64)
    live[[10, 49, 50, 51]] = (1, 2, 3, 4)
    dead[[49, 50]] = (5, 5)
    one = Histogram((np.linspace(-2, 2, 101),), {"a.w": live, "b.w": dead})
    source = Recorded([Record(step, "GradHist1d", Kind.HISTOGRAM, one) for step in range(3)], "s")
    cells = {(row["at"], row["r"]): row["c"] for row in shown("GradHist1d", source)["away"].datasets["cells"]}
    assert cells == {(step, row): value for step in range(3) for row, value in ((0, 0.5), (1, 0.0))}


def test_cloud_shows_the_layer_with_the_largest_share() -> None:
    big, small = np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64)
    big[0], small[0] = (900, 100), (0, 10)
    edges = (np.array([-1.0, 0.0, 1.0]), np.array([-2.0, 0.0, 2.0]))
    one = Histogram(edges, {"a.w": big, "b.w": small})
    source = Recorded([Record(0, "GradHist2d", Kind.HISTOGRAM, one)], "s")
    cells = {row["x"]: (row["r"], row["n"]) for row in shown("GradHist2d", source)["cloud"].datasets["cells"]}
    assert cells == {-2.0: (0, 900), 0.0: (1, 110)}  # all of b, a tenth of a


def test_ridges_stand_on_their_rows() -> None:
    rows = shown("GradHist1d")["ridge"].datasets["ridges"]
    assert {row["base"] for row in rows} == {0.0, 1.0, 2.0}
    assert all(row["base"] - 1.5 <= row["r"] <= row["base"] for row in rows)


def test_filter_and_range() -> None:
    made = shown("GradHist1d", view=View(layers="Linear", range="auto"))
    assert next(p["value"] for p in made["bins"].spec["params"] if p["name"] == "rows") == ["7"]
    assert "No layer matches" in str(shown("GradHist1d", view=View(layers="nothing"))["ridge"].empty)
