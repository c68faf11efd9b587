from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest
from tests.dashboard.client import TestClient, connect
from tests.dashboard.runs import LAYERS, write

from cockpit import store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import StoredRun


@pytest.mark.parametrize(("form", "begin"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_a_panel_as_a_figure(client: TestClient, form: str, begin: bytes) -> None:
    answer = client.get(f"/api/figure?run=first&panel=loss&format={form}")
    assert answer.status_code == 200, answer.text
    assert answer.content.startswith(begin)
    assert answer.headers["content-disposition"] == f'attachment; filename="first-loss.{form}"'


def test_a_panel_as_numbers_without_thinning(client: TestClient) -> None:
    text = client.get("/api/data?run=first&panel=loss&format=csv&points=50").text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["run", "quantity", "step", "value"]
    assert [int(row["step"]) for row in rows] == list(range(0, 80, 2))
    assert {(row["run"], row["quantity"]) for row in rows} == {("first", "Loss")}
    content = client.get("/api/data?run=first&panel=loss&format=json").json()
    assert len(content["rows"]) == 40


def table(client: TestClient, query: str) -> list[dict[str, str]]:
    answer = client.get(f"/api/data?{query}&format=csv")
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_a_zoomed_panel_gives_the_steps_that_it_shows(client: TestClient) -> None:
    steps = [int(row["step"]) for row in table(client, "run=first&run=sweep/second&panel=loss&lo=10&hi=14")]
    assert steps == [10, 12, 14, 10, 11, 12, 13, 14]


def test_values_of_layers_are_named(client: TestClient) -> None:
    rows = table(client, "run=first&panel=trace-layers")
    assert {row["layer"] for row in rows} == {"", "0", "2"}
    assert {row["parameter"] for row in rows} == {"total", *LAYERS}
    assert {row["quantity"] for row in rows} == {"HessTrace"}
    only = table(client, "run=first&panel=trace-layers&layers=2")
    assert {row["parameter"] for row in only} == {"total", "2.weight", "2.bias"}


def test_panels_that_draw_outlines_give_their_measurements(client: TestClient) -> None:
    rows = table(client, "run=first&panel=tests")
    assert {row["quantity"] for row in rows} == {"NormTest", "InnerTest", "OrthoTest"}
    assert {row["quantity"] for row in table(client, "run=first&panel=metrics")} == {"accuracy"}


def test_histograms_are_counts_between_limits(client: TestClient) -> None:
    rows = table(client, "run=first&panel=hist1d&step=21")
    assert list(rows[0]) == ["run", "quantity", "step", "parameter", "low", "high", "count"]
    assert {row["step"] for row in rows} == {"20"}
    assert sum(int(row["count"]) for row in rows) == 50 * len(LAYERS)
    assert all(float(row["high"]) - float(row["low"]) == pytest.approx(0.1) for row in rows)
    plane = table(client, "run=first&panel=hist2d")
    assert {"low", "high", "low_2", "high_2", "parameter"} < set(plane[0])
    assert {row["step"] for row in plane} == {"78"}


def test_runs_of_one_name_and_values_that_are_not_finite(tmp_path: Path) -> None:
    for place in "ab":
        writer = store.create(tmp_path / place, {"name": "same"})
        writer.append(
            [Record(step, "Loss", Kind.SCALAR, value) for step, value in enumerate((1.0, math.nan, math.inf))]
        )
        writer.close()
    with connect(tmp_path) as client:
        rows = table(client, "run=a&run=b&panel=loss")
        assert client.get("/api/data?run=a&panel=loss&format=json").json()["rows"][1]["value"] == "NaN"
    assert {row["run"] for row in rows} == {"same (a)", "same (b)"}
    assert [row["value"] for row in rows[:3]] == ["1.0", "NaN", "inf"]


def test_numbers_have_all_their_digits(tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    loss = StoredRun(folder).scalar("Loss").values.tolist()
    with connect(tmp_path) as client:
        rows = client.get("/api/data?run=run&panel=loss&format=json").json()["rows"]
        seen = client.get("/api/panel?run=run&panel=loss").text
    assert [row["value"] for row in rows] == loss
    assert str(loss[-1]) not in seen, "what is drawn is rounded, or this test proves nothing"


def test_a_name_that_looks_like_a_formula_stays_text(tmp_path: Path) -> None:
    write(tmp_path / "run", name="=HYPERLINK(1)")
    with connect(tmp_path) as client:
        text = client.get("/api/data?run=run&panel=loss&format=csv").text
    assert "'=HYPERLINK(1)" in text
    assert "\n=HYPERLINK" not in text


def test_unknown_panels_and_formats_are_refused(client: TestClient) -> None:
    for path in (
        "figure?run=first&panel=loss&format=exe",
        "data?run=first&panel=loss&format=xls",
        "data?run=first&panel=no",
    ):
        answer = client.get(f"/api/{path}")
        assert answer.status_code == 400
        assert "known" in answer.json()["error"] or "one of" in answer.json()["error"]
