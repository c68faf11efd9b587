"""Curves over steps: rows, edges, bands, colours."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import of, run

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import View, panel


def test_rows_are_the_series() -> None:
    values: dict[int, float | None] = {0: 3.0, 2: 1.0, 5: 2.5}
    rows = panel([of("Loss", values)], "loss").datasets["lines"]
    assert {row["step"]: row["v"] for row in rows} == values


def test_totals_of_parameters() -> None:
    source = run()
    parts = source.parts("GradNorm")
    rows = panel([source], "grad-norm").datasets["lines"]
    slow = [sum(value**2 for value in values) ** 0.5 for values in parts.values.tolist()]
    assert [row["v"] for row in rows] == pytest.approx(slow, rel=1e-4)
    traces = panel([source], "trace").datasets["lines"]
    sums = [sum(values) for values in source.parts("HessTrace").values.tolist()]
    assert [row["v"] for row in traces] == pytest.approx(sums, rel=1e-4)


def test_what_is_not_finite_is_marked_and_what_is_undefined_is_not() -> None:
    source = of("Loss", {0: 1.0, 1: float("nan"), 2: float("inf"), 30: None, 40: 0.5}, "no samples")
    shown = panel([source], "loss")
    assert [row["step"] for row in shown.datasets["lines"]] == [0, 40]
    assert [(row["step"], row["e"]) for row in shown.datasets["edge"]] == [(1, "bad"), (2, "bad")]
    assert "not finite from step 1" in shown.note
    assert "Loss undefined at 1 step · no samples" in shown.note


def test_a_loss_that_is_never_finite_is_still_marked() -> None:
    shown = panel([of("Loss", {0: float("nan"), 1: float("nan")})], "loss")
    assert shown.empty is None
    assert len(shown.datasets["edge"]) == 2


def test_each_of_several_reasons_is_counted() -> None:
    few = [Record(step, "Loss", Kind.SCALAR, None, f"reason {step % 2}") for step in range(3)]
    shown = panel([Recorded([*few, Record(3, "Loss", Kind.SCALAR, 1.0)])], "loss")
    assert "Loss undefined at 3 steps · 2× reason 0; 1× reason 1" in shown.note


@pytest.mark.parametrize("name", ["HessTrace", "TICDiag"])
def test_what_is_undefined_at_every_step_is_no_curve(name: str) -> None:
    kind = Kind.PER_PARAMETER if name == "HessTrace" else Kind.SCALAR
    source = Recorded([Record(step, name, kind, None, "too many outputs") for step in range(4)])
    assert np.isnan(source.scalar(name).values).all(), "a sum of nothing is no 0"
    shown = panel([source], "trace" if name == "HessTrace" else "tic")
    assert shown.empty == f"{name} is undefined at every tracked step: too many outputs."


def test_zeros_lie_at_the_edge_of_a_log_axis() -> None:
    shown = panel([of("GradNorm", {0: 1.0, 1: 0.0, 2: 0.01})], "grad-norm")
    assert [row["step"] for row in shown.datasets["lines"]] == [0, 2]
    assert [(row["step"], row["e"]) for row in shown.datasets["edge"]] == [(1, "zero")]
    assert "exactly 0" in shown.note


def test_many_marks_are_spread_over_the_axis() -> None:
    broken = {step: float("nan") for step in range(500)}
    rows = panel([of("Loss", {**broken, 500: 1.0})], "loss").datasets["edge"]
    assert 30 <= len(rows) <= 41


def test_standard_errors_become_a_band() -> None:
    source = run()
    band = panel([source], "trace").datasets["band"]
    values = source.scalar("HessTrace").values
    error = (6 * 0.1**2) ** 0.5  # six parameters with 0.1 each
    assert [row["w"] for row in band] == pytest.approx(values + error, rel=1e-4)
    assert [row["v"] for row in band] == pytest.approx(values - error, rel=1e-3)


def test_smoothing_keeps_the_raw_curve_behind() -> None:
    source = of("Loss", {step: float(step % 2) for step in range(100)})
    shown = panel([source], "loss", View(smoothing=0.9)).datasets
    assert {row["v"] for row in shown["raw"]} == {0.0, 1.0}
    assert np.std([row["v"] for row in shown["lines"][20:]]) < 0.1


def test_colours_stay_with_runs() -> None:
    one, two = run("a"), run("b")
    both = panel([one, two], "loss", View(colours=("#111111", "#222222")))
    alone = panel([two], "loss")
    scale = both.spec["layer"][0]["encoding"]["color"]["scale"]
    assert scale == {"domain": ["a", "b"], "range": ["#111111", "#222222"]}
    assert alone.spec["layer"][0]["encoding"]["color"]["field"] == "k"


def test_runs_of_one_name_are_told_apart() -> None:
    rows = panel([run("a"), run("a")], "loss").datasets["lines"]
    assert {row["run"] for row in rows} == {"a", "a (2)"}


def test_step_axis_is_moved_by_parameters() -> None:
    spec = panel([run(steps=range(0, 2000, 20))], "loss", View(span=(10, 50))).spec
    params = {param["name"]: param.get("value") for param in spec["params"]}
    assert (params["lo"], params["hi"]) == (10, 50)
    assert spec["encoding"]["x"]["scale"]["type"] == "symlog"
    assert spec["encoding"]["x"]["scale"]["domain"] == [{"expr": "lo"}, {"expr": "hi"}]
    assert panel([run()], "loss").spec["encoding"]["x"]["scale"]["type"] == "linear"


@pytest.mark.parametrize("runs", [1, 20])
def test_points_are_limited(runs: int) -> None:
    source = of("Loss", {step: float(np.sin(step)) for step in range(5000)})
    rows = panel([source] * runs, "loss").datasets["lines"]
    assert len(rows) <= 3000
    assert len(panel([source], "loss", View(points=10_000)).datasets["lines"]) == 5000


def test_line_of_stability() -> None:
    shown = panel([run()], "eigenvalue").datasets["lines"]
    assert {row["v"] for row in shown if row["k"] == "2 / learning rate"} == {20.0}
    far = panel([of("HessMaxEV", {0: 1.0, 1: 2.0}, learning_rate={0: 1e-6})], "eigenvalue")
    assert next(p["value"] for p in far.spec["params"] if p["name"] == "yhi") < 10  # too far above to make room for


def test_curvature_is_named() -> None:
    assert "Hutchinson" in panel([run()], "trace").note
