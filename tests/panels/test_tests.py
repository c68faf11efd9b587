"""The gauge of the gradient tests."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import of, run

from cockpit.panels import View, panel
from cockpit.panels.runs import Runs
from cockpit.panels.tests import CRITICAL, suggested_batch


def test_bands_and_ball_have_the_measured_size() -> None:
    shown = panel([run()], "tests").datasets
    bands = {row["k"]: row for row in shown["bands"]}
    assert bands["inner"]["y2"] == -bands["inner"]["y"] == pytest.approx(0.48)
    assert bands["ortho"]["x2"] == -bands["ortho"]["x"] == pytest.approx(0.64)
    assert [np.hypot(row["x"], row["y"]) for row in shown["ball"]] == pytest.approx([0.8] * len(shown["ball"]), 1e-3)


def test_critical_values_are_marked() -> None:
    shown = panel([run()], "tests")
    lines = {(row["x"], row["y"]) for row in shown.datasets["critical"]}
    width, height = (next(p["value"] for p in shown.spec["params"] if p["name"] == n) for n in ("half_x", "half_y"))
    assert lines == {(-width, -0.9), (-width, 0.9), (-5.84, -height), (5.84, -height)}
    ring = [np.hypot(row["x"], row["y"]) for row in shown.datasets["ring"]]
    assert ring == pytest.approx([CRITICAL["NormTest"]] * len(ring), 1e-3)


def test_suggested_batch_size_would_just_pass() -> None:
    runs = Runs([run()], View())
    assert suggested_batch(runs, 0) == {
        "NormTest": 51,  # 64 (0.8 / 0.9)^2 = 50.6
        "InnerTest": 19,  # 64 (0.48 / 0.9)^2 = 18.2
        "OrthoTest": 2,
    }
    assert "norm test needs 51 · inner and ortho 19" in panel([run()], "tests").note


def test_no_suggestion_without_a_batch_size() -> None:
    assert suggested_batch(Runs([of("NormTest", {0: 1.0})], View()), 0) == {}


def test_one_test_alone_is_shown() -> None:
    shown = panel([of("InnerTest", {0: 1.0, 1: 3.0})], "tests")
    assert shown.empty is None
    assert [row["k"] for row in shown.datasets["bands"]] == ["inner"]
    assert shown.datasets["ball"] == []


def test_at_the_asked_step() -> None:
    source = of("NormTest", {0: 1.0, 10: 3.0, 20: 5.0})
    for step, radius in ((None, 5.0), (15, 3.0), (10, 3.0), (3, 1.0)):
        ball = panel([source], "tests", View(step=step)).datasets["ball"]
        assert max(row["x"] for row in ball) == pytest.approx(radius)


def test_critical_values_in_the_history() -> None:
    assert panel([of("OrthoTest", {0: 4.0})], "tests-time").datasets["marks"] == [{"v": 0.9}, {"v": 5.84}]
    assert panel([run()], "tests-time").datasets["marks"] == [{"v": 0.9}]  # the other one is far above all values
