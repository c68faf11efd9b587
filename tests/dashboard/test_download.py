from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from tests.dashboard.client import TestClient, connect
from tests.dashboard.runs import write

from cockpit.store import StoredRun


@pytest.mark.parametrize(("form", "begin"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_a_panel_as_a_figure(client: TestClient, form: str, begin: bytes) -> None:
    answer = client.get(f"/api/figure?run=first&panel=loss&format={form}")
    assert answer.status_code == 200, answer.text
    assert answer.content.startswith(begin)
    assert answer.headers["content-disposition"] == f'attachment; filename="loss.{form}"'


def test_a_panel_as_numbers_without_thinning(client: TestClient) -> None:
    text = client.get("/api/data?run=first&panel=loss&format=csv&points=50").text
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["dataset"] == "lines"]
    assert [int(row["step"]) for row in rows] == list(range(0, 80, 2))
    content = client.get("/api/data?run=first&panel=loss&format=json").json()
    assert len(content["lines"]) == 40


def test_numbers_have_all_their_digits(tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    loss = StoredRun(folder).scalar("Loss").values.tolist()
    with connect(tmp_path) as client:
        rows = client.get("/api/data?run=run&panel=loss&format=json").json()["lines"]
        seen = client.get("/api/panel?run=run&panel=loss").text
    assert [row["v"] for row in rows] == loss
    assert str(loss[-1]) not in seen, "what is drawn is rounded, or this test proves nothing"


def test_a_name_that_looks_like_a_formula_stays_text(tmp_path: Path) -> None:
    write(tmp_path / "run", name="=HYPERLINK(1)")
    with connect(tmp_path) as client:
        text = client.get("/api/data?run=run&panel=loss&format=csv").text
    assert "'=HYPERLINK(1)" in text
    assert ",=HYPERLINK" not in text


def test_unknown_panels_and_formats_are_refused(client: TestClient) -> None:
    for path in (
        "figure?run=first&panel=loss&format=exe",
        "data?run=first&panel=loss&format=xls",
        "data?run=first&panel=no",
    ):
        answer = client.get(f"/api/{path}")
        assert answer.status_code == 400
        assert "known" in answer.json()["error"] or "one of" in answer.json()["error"]
