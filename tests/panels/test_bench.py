"""Benchmark results as panels."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from cockpit.panels import Panel
from cockpit.panels._base import Spec
from cockpit.panels.bench import Curve, End, Grid, Measure, curves, final, palette, sensitivity, speed
from cockpit.panels.theme import QUIET, RUNS

LOSS = Measure("test loss", rises=False)
ACCURACY = Measure("test accuracy (%)", rises=True)


def line(name: str, values: list[float], seeds: int = 3, **more: object) -> Curve:
    mean = np.array(values)
    return Curve(name, mean, mean - 0.1, mean + 0.1, seeds, **more)  # type: ignore[arg-type]


def colours(panel: Panel, layer: int = 1) -> dict[str, str]:
    scale = panel.spec["layer"][layer]["encoding"]["color"]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def strict(panel: Panel) -> None:
    """All that is shown can travel, and every layer has its rows."""
    json.dumps([panel.spec, dict(panel.datasets)], allow_nan=False)
    for layer in panel.spec["layer"]:
        assert layer["data"]["name"] in panel.datasets


def domain(panel: Panel, axis: str) -> tuple[float, float]:
    low, high = panel.spec["encoding"][axis]["scale"]["domain"]
    return low, high


def test_curves() -> None:
    panel = curves("p", [line("SGD", [2.0, 1.0, 0.5]), line("Adam", [2.0, 0.9, 0.4], reference=True)], LOSS)
    strict(panel)
    assert [row["v"] for row in panel.datasets["lines"] if row["k"] == "SGD"] == [2.0, 1.0, 0.5]
    assert {row["k"] for row in panel.datasets["band"]} == {"SGD"}  # what lies behind has no band
    assert panel.datasets["band"][1] == {"x": 1, "v": 0.9, "w": 1.1, "k": "SGD"}
    assert colours(panel) == {"SGD": RUNS[0], "Adam": QUIET}
    assert domain(panel, "x") == (0, 2)
    assert panel.note == "mean of 3 seeds ± one standard deviation"


def test_the_steep_beginning_is_outside() -> None:
    values = [1000.0, *np.linspace(2, 1, 100)]
    low, high = domain(curves("p", [line("SGD", values)], LOSS), "y")
    assert 0.8 < low < 1
    assert 2 < high < 2.3


def test_a_band_below_zero_does_not_hide_a_log_axis() -> None:
    falling = np.array([2.0, 1.0, 0.1, 0.01, 0.001])
    panel = curves("p", [Curve("SGD", falling, falling - 0.05, falling + 0.05, 3)], LOSS)
    assert panel.spec["encoding"]["y"]["scale"]["type"] == "log"
    assert all(row["v"] > 0 for row in panel.datasets["band"])


def test_one_seed_has_no_band_and_nothing_to_say() -> None:
    panel = curves("p", [line("SGD", [2.0, 1.0], seeds=1)], LOSS)
    assert panel.datasets["band"] == []
    assert panel.note == ""


def test_published_ends_and_divergence_are_marked() -> None:
    panel = curves("p", [line("SGD", [2.0, 1.0, math.nan], diverged=[2], published=(1, 0.7))], LOSS)
    strict(panel)
    assert panel.datasets["ends"] == [{"x": 1, "v": 0.7, "k": "SGD"}]
    assert panel.datasets["edge"] == [{"x": 2, "k": "SGD"}]
    assert len(panel.datasets["lines"]) == 2
    assert "diamonds: published" in panel.note
    assert "red crosses: a seed diverged" in panel.note


def test_a_figure_after_more_epochs_is_told_but_not_marked() -> None:
    panel = curves("p", [line("SGD", [2.0, 1.0], published=(100, 0.1))], LOSS)
    assert panel.datasets["ends"] == []
    assert domain(panel, "y")[0] > 0.5
    assert panel.note.endswith("published figures lie outside, at epoch 100")


def test_nothing_to_see() -> None:
    lost = np.array([math.nan])
    for panel in (
        curves("p", [line("SGD", [math.nan])], LOSS),
        sensitivity("p", [Grid("SGD", [0.1], [lost])], LOSS),
        speed("p", [End("SGD", np.array([0.5]))], LOSS),
        final("p", [End("SGD", lost)], LOSS),
    ):
        assert panel.empty


def test_sensitivity() -> None:
    ends = [np.array([1.0, 2.0]), np.array([math.nan, 0.5]), np.array([math.nan, 0.6]), np.array([0.4])]
    panel = sensitivity("p", [Grid("SGD", [1e-3, 1e-2, 0.1, 1.0], ends)], LOSS)
    strict(panel)
    assert [row["v"] for row in panel.datasets["means"]] == [1.5, None, None, 0.4]  # the line breaks
    assert [row["x"] for row in panel.datasets["edge"]] == [0.01, 0.1]  # diverged, and worse than the start
    assert sorted(row["v"] for row in panel.datasets["seeds"]) == [0.4, 0.5, 0.6, 1.0, 2.0]
    assert panel.spec["encoding"]["x"]["scale"]["type"] == "log"
    assert panel.spec["encoding"]["x"]["axis"]["title"] == "learning rate"
    assert "worse than at the start" in panel.note
    low, high = domain(panel, "y")
    assert high - 2.0 > 2 * (0.4 - low)  # room for the crosses


def test_speed() -> None:
    ends = [End("SGD", np.array([90.0, 92.0]), 41.0, 40, 91.5, 39.0), End("Adam", np.array([93.0]), 12.0, 40)]
    panel = speed("p", [*ends, End("RMSprop", np.array([math.nan]), 3.0, 40)], ACCURACY)
    strict(panel)
    assert panel.datasets["dots"][0] == {"x": 41.0, "v": 91.0, "lo": 90.0, "hi": 92.0, "k": "SGD"}
    assert panel.datasets["published"] == [{"x": 39.0, "v": 91.5, "k": "SGD"}]
    assert domain(panel, "x")[0] == 0
    assert "never good enough: SGD" in panel.note
    assert "diverged: RMSprop" in panel.note


def test_settings_that_differ_in_more_are_not_joined() -> None:
    panel = sensitivity("p", [Grid("SGD", [0.1, 0.1], [np.array([0.5]), np.array([0.6])], joined=False)], LOSS)
    assert panel.datasets["means"] == []
    assert len(panel.datasets["seeds"]) == 2


def test_grey_dots_are_named() -> None:
    ends = [End("SGD", np.array([1.0]), 3.0, 9), End("Adam, old", np.array([1.1]), 4.0, 9, reference=True)]
    panel = speed("p", ends, LOSS)
    strict(panel)
    assert [row["k"] for row in panel.datasets["names"]] == ["Adam, old"]


def test_final() -> None:
    panel = final(
        "p", [End("SGD", np.array([90.0, 92.0]), published=91.5), End("Adam", np.array([93.0, math.nan]))], ACCURACY
    )
    strict(panel)
    assert panel.datasets["means"] == [{"v": 91.0, "k": "SGD", "n": "SGD"}]  # no mean of survivors
    assert panel.spec["encoding"]["y"]["scale"]["domain"] == ["SGD", "Adam (1 of 2 diverged)"]
    assert [row["v"] for row in panel.datasets["published"]] == [91.5]


@pytest.mark.parametrize("names", [1, 15, 40])
def test_everybody_looks_different(names: int) -> None:
    look = palette([f"o{name}" for name in range(names)])
    assert len({(colour, tuple(dash)) for colour, dash in look.values()}) == names


def test_a_colour_belongs_to_a_name() -> None:
    measure = Measure("test loss", False, colours=palette(["Adam", "SGD"]))
    panel = curves("p", [line("SGD", [2.0, 1.0])], measure)
    assert colours(panel) == {"SGD": RUNS[1]}


def test_axes_have_titles() -> None:
    titles: list[Spec] = [
        curves("p", [line("SGD", [2.0, 1.0])], LOSS).spec["encoding"],
        speed("p", [End("SGD", np.array([0.5]), 1.0, 2)], LOSS).spec["encoding"],
    ]
    assert [encoding["x"]["axis"]["title"] for encoding in titles] == ["epoch", "epochs to the convergence performance"]
    assert {encoding["y"]["axis"]["title"] for encoding in titles} == {"test loss"}


@pytest.mark.parametrize(("length", "expected"), [(1, [0]), (2, [0, 1]), (4, [0, 1, 2, 3])])
def test_few_epochs_are_whole(length: int, expected: list[int]) -> None:
    panel = curves("p", [line("SGD", [1.0] * length)], LOSS)
    axis = panel.spec["encoding"]["x"]["axis"]
    assert (axis["values"], axis["format"]) == (expected, "d")


def test_a_value_without_neighbours_is_a_point() -> None:
    panel = curves("p", [line("SGD", [2.0, math.nan], diverged=[1]), line("Adam", [2.0, 1.0])], LOSS)
    strict(panel)
    assert panel.datasets["alone"] == [{"x": 0, "v": 2.0, "k": "SGD"}]


def test_runs_that_have_not_finished_are_not_called_diverged() -> None:
    none = np.array([])
    shown = [
        sensitivity("p", [Grid("SGD", [0.1], [none])], LOSS),
        speed("p", [End("SGD", none)], LOSS),
        final("p", [End("SGD", none)], LOSS),
    ]
    assert all("finished" in (panel.empty or "") for panel in shown)
