"""A zoom reaches every panel, also those whose axis is not the step."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import of, run

from cockpit.panels import View, panel

SPAN = View(span=(20, 50))


def test_alpha_is_of_the_steps_in_view() -> None:
    values: dict[int, float | None] = {step: -1.0 if step < 20 else 0.5 if step <= 50 else 1.0 for step in range(100)}
    shown = panel([of("Alpha", values)], "alpha", SPAN)
    assert {row["mean"] for row in shown.datasets["means"]} == {0.5}
    assert shown.note.startswith("last 20 tracked: median 0.5")
    outside = panel([of("Alpha", values)], "alpha", View(span=(200, 300)))
    assert outside.empty == "No Alpha between step 200 and step 300."


def test_gauge_and_histograms_show_the_last_step_in_view() -> None:
    source = of("NormTest", {0: 1.0, 40: 3.0, 60: 5.0})
    shown = panel([source], "tests", SPAN)
    assert max(row["x"] for row in shown.datasets["ball"]) == pytest.approx(3.0)
    assert "shown: step 40" in shown.note
    assert panel([run()], "hist1d", SPAN).note.endswith("step 50")
    assert panel([run()], "hist2d", SPAN).note == "step 50"
    asked = panel([run()], "hist2d", View(span=(20, 50), step=30))
    assert asked.note == "step 30", "a step that is asked for stands"


def test_ranges_of_layers_are_those_in_view() -> None:
    source = run()
    parts = source.parts("GradNorm")
    inside = (parts.steps >= 20) & (parts.steps <= 50)
    rows = panel([source], "layers-range-GradNorm", SPAN).datasets["rows"]
    values = np.sqrt(np.square(parts.values[inside][:, :2]).sum(1))  # weight and bias of the first layer
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx((values.min(), values.max()))
    assert rows[0]["v"] == pytest.approx(values[-1])


def test_the_present_value_is_that_at_the_end_of_the_view() -> None:
    source = of("GradNorm", {0: 1.0, 40: 2.0, 60: 3.0})
    assert panel([source], "grad-norm").note == "now 3"
    assert panel([source], "grad-norm", SPAN).note == "at the end 2"


def test_axes_reach_the_last_step_that_was_taken() -> None:
    source = of("Loss", {0: 1.0, 290: 0.5})
    source.reached = 400
    params = {one["name"]: one.get("value") for one in panel([source], "loss").spec["params"]}
    assert (params["lo"], params["hi"]) == (0, 399)
