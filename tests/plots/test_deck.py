"""What the text deck shows, as data."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plots.samples import LATER, records

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.plots.deck import SAMPLED, Row, deck


def rows(found: list[Record]) -> dict[str, Row]:
    return {row.name: row for group in deck(Recorded(found)) for row in group.rows}


def test_groups_in_the_order_of_the_deck() -> None:
    groups = {group.title: [row.name for row in group.rows] for group in deck(Recorded(records()))}
    assert groups == {
        "step size": ["Alpha", "GradNorm"],
        "gradients": ["GradHist1d", "GradHist2d"],
        "curvature": ["HessTrace"],
        "performance": ["Loss", "Parameters", "Fuel", "tracking_seconds"],
    }


def test_one_number_for_each_kind() -> None:
    found = rows(records())
    assert (found["Loss"].reading, found["Loss"].values[-1]) == ("value", 0.2)
    assert (found["GradNorm"].reading, found["GradNorm"].values[0]) == ("total", 5.0)
    assert (found["HessTrace"].reading, found["HessTrace"].values[0]) == ("sum", 2.0)
    assert found["Parameters"].values[0] == 5.0
    assert found["GradHist1d"].reading == "spread"
    assert found["GradHist1d"].values[0] == pytest.approx(np.std([-0.5] * 4 + [0.5] * 5 + [1.5]))


def test_the_last_histogram_is_kept_along_its_first_axis() -> None:
    found = rows(records())
    assert found["GradHist1d"].counted is not None
    assert found["GradHist1d"].counted.edges.tolist() == [-2, -1, 0, 1, 2]
    assert found["GradHist2d"].counted is not None
    assert found["GradHist2d"].counted.counts.tolist() == [1, 1, 1, 1]


def test_undefined_is_not_the_same_as_not_finite() -> None:
    found = rows(records())
    assert (len(found["Alpha"].values), found["Alpha"].undefined) == (9, {LATER: [9]})
    assert (len(found["Fuel"].values), found["Fuel"].undefined) == (10, {})
    assert np.isnan(found["Fuel"].values[3])


def test_of_a_long_run_few_histograms_are_read() -> None:
    edges = np.linspace(0, 1, 3)
    many = [
        Record(step, "H", Kind.HISTOGRAM, Histogram((edges,), {"w": np.array([step, 1])}))
        for step in range(5 * SAMPLED)
    ]
    row = rows(many)["H"]
    assert len(row.steps) == SAMPLED
    assert (row.steps[0], row.steps[-1]) == (0, 5 * SAMPLED - 1)


def test_empty_histograms_have_no_spread() -> None:
    nothing = Histogram((np.linspace(0, 1, 3),), {"w": np.zeros(2, dtype=np.int64)})
    assert deck(Recorded([Record(0, "H", Kind.HISTOGRAM, nothing)])) == []


def test_nothing_recorded() -> None:
    assert deck(Recorded([])) == []
