"""The two-dimensional histogram and its marginals."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.panels.made import run

from cockpit.panels import View, panel


def test_cells_and_marginals_are_the_counts() -> None:
    source = run()
    counts = source.histogram("GradHist2d", 78).counts  # [gradient, parameter]
    shown = panel([source], "hist2d").datasets
    assert sum(row["c"] for row in shown["cells"]) == counts.sum()
    by_parameter, by_gradient = Counter[float](), Counter[float]()
    for row in shown["cells"]:
        by_parameter[row["x"]] += row["c"]
        by_gradient[row["y"]] += row["c"]
    above = {row["x"]: row["n"] for row in shown["marginals"] if row["side"] == "parameter"}
    right = {row["y"]: row["n"] for row in shown["marginals"] if row["side"] == "gradient"}
    assert above == by_parameter
    assert right == by_gradient
    assert list(above.values()) == [int(count) for count in counts.sum(0) if count]


def test_marginals_lie_beside_the_cells() -> None:
    shown = panel([run()], "hist2d").datasets
    assert min(row["y"] for row in shown["marginals"] if row["side"] == "parameter") > 1.0
    assert min(row["x"] for row in shown["marginals"] if row["side"] == "gradient") > 2.0


def test_axes_have_room_for_the_marginals() -> None:
    shown = panel([run()], "hist2d")
    params = {param["name"]: param["value"] for param in shown.spec["params"]}
    assert params["right"] == pytest.approx(2 + 0.24 * 4)
    assert max(row["x2"] for row in shown.datasets["marginals"] if "x2" in row) <= params["right"]
    assert max(row["y2"] for row in shown.datasets["marginals"]) <= params["ceiling"]


def test_first_run_that_has_one() -> None:
    shown = panel([run("a"), run("b")], "hist2d", View(step=0))
    assert shown.note == "a, step 0"
