from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.dashboard.client import TestClient, connect
from tests.dashboard.runs import EVIL, write
from tests.plots.samples import COST

from cockpit import store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record


def get(client: TestClient, path: str, status: int = 200) -> dict[str, Any]:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_list_tells_state_loss_and_colour_of_every_run(client: TestClient) -> None:
    listed = {run["id"]: run for run in get(client, "/api/runs")["runs"]}
    assert set(listed) == {"first", "sweep/second", "bad", "empty"}
    assert listed["first"]["state"] == "finished"
    assert listed["first"]["step"] == 78
    assert listed["first"]["loss"] == pytest.approx(0.52, abs=0.01)
    assert listed["bad"]["name"] == EVIL
    assert (listed["bad"]["state"], listed["bad"]["reason"]) == ("crashed", "RuntimeError: out of <b>memory</b>")
    assert listed["empty"]["loss"] is None
    assert len({run["colour"] for run in listed.values()}) == 4


def test_the_deck_fills_the_three_columns_and_the_row_below(client: TestClient) -> None:
    panels = get(client, "/api/deck?run=first")["panels"]
    groups = [panel["group"] for panel in panels]
    assert {"step size", "gradients", "curvature", "performance"} == set(groups)
    assert all(groups.count(group) <= 4 for group in set(groups))
    assert [panel["id"] for panel in panels if panel["empty"]] == []
    loss = next(panel for panel in panels if panel["id"] == "loss")
    assert len(loss["datasets"]["lines"]) == 40
    assert loss["aid"]


def test_the_second_page_comes_only_when_asked_for(client: TestClient) -> None:
    groups = {panel["group"] for panel in get(client, "/api/deck?run=first&more=1")["panels"]}
    assert "more" in groups


def test_only_what_the_page_does_not_know_is_sent(client: TestClient) -> None:
    first = get(client, "/api/deck?run=first")["panels"]
    known = ",".join(f"{panel['id']}:{panel['marks']}" for panel in first)
    again = get(client, f"/api/deck?run=first&known={known}")["panels"]
    assert not any("spec" in panel or "datasets" in panel for panel in again)
    other = get(client, f"/api/deck?run=sweep/second&known={known}")["panels"]
    loss = next(panel for panel in other if panel["id"] == "loss")
    assert "spec" not in loss
    assert len(loss["datasets"]["lines"]) == 40


def test_new_steps_change_parameters_not_the_specification(client: TestClient) -> None:
    zoomed = get(client, "/api/deck?run=first&lo=10&hi=20")["panels"]
    whole = get(client, "/api/deck?run=first")["panels"]
    for near, far in zip(zoomed, whole, strict=True):
        if near["steps"]:
            assert (near["params"]["lo"], near["params"]["hi"]) == (10, 20)
            assert near["marks"].split(".")[0] == far["marks"].split(".")[0], near["id"]


def test_a_run_keeps_its_colour_when_another_is_left_out(client: TestClient) -> None:
    listed = {run["id"]: run["colour"] for run in get(client, "/api/runs")["runs"]}
    both = get(client, "/api/deck?run=first&run=sweep/second")["runs"]
    alone = get(client, "/api/deck?run=sweep/second")["runs"]
    assert [run["colour"] for run in both] == [listed["first"], listed["sweep/second"]]
    assert alone[0]["colour"] == listed["sweep/second"]


def test_an_empty_run_says_so_in_every_panel(client: TestClient) -> None:
    panels = get(client, "/api/deck?run=empty")["panels"]
    assert all(panel["empty"] for panel in panels)


def test_layers_show_what_is_measured_for_each_parameter(client: TestClient) -> None:
    answer = get(client, "/api/layers?run=first&name=HessTrace")
    assert answer["name"] == "HessTrace"
    assert {"GradNorm", "GradHist1d"} <= set(answer["layered"])
    assert answer["panels"]
    assert get(client, "/api/layers?run=first&name=nonsense")["name"] == "GradNorm"
    assert get(client, "/api/layers?run=empty")["panels"] == []


def test_a_large_panel_has_its_layers_beside_it(client: TestClient) -> None:
    answer = get(client, "/api/panel?run=first&panel=grad-norm&points=2000")
    assert answer["panels"][0]["id"] == "grad-norm"
    assert "GradNorm" in answer["beside"][0]["names"]
    assert get(client, "/api/panel?run=first&panel=loss")["beside"] == []


def test_details_tell_coverage_and_instruments(client: TestClient) -> None:
    answer = get(client, "/api/details?run=first")
    assert answer["coverage"] == "covers everything"
    loss = next(one for one in answer["instruments"] if one["name"] == "Loss")
    assert (loss["values"], loss["last"], loss["kind"]) == (40, 78, "scalar")


def test_a_crash_is_told_in_full_and_every_cost_is_listed(tmp_path: Path) -> None:
    seconds = {"tracked steps": 4.0, "curvature": 2.0, "Loss": 1.0}
    why = "RuntimeError: " + "a long reason " * 20
    write(tmp_path / "run", state="crashed", reason=why, cost={"seconds": seconds, "tracked": 10, "elapsed": 9.0})
    with connect(tmp_path) as client:
        answer = get(client, "/api/details?run=run")
    assert answer["reason"].strip() == why.strip()
    assert [(one["name"], one["milliseconds"]) for one in answer["shared"]] == [
        ("tracked steps", 400),
        ("curvature", 200),
    ]
    assert next(one for one in answer["instruments"] if one["name"] == "Loss")["milliseconds"] == 100


def test_the_cost_of_watching_is_told_by_tier(tmp_path: Path) -> None:
    write(tmp_path / "run", cost=COST)
    write(tmp_path / "old")
    with connect(tmp_path) as client:
        answer = get(client, "/api/details?run=run")
        head = answer["runs"][0]
        old = get(client, "/api/details?run=old")
    cost = answer["cost"]
    assert (cost["allowed"], cost["used"], cost["spent"], cost["plain"]) == (0.05, 0.045, 13.5, 10)
    assert [(tier["name"], tier["tracked"]) for tier in cost["tiers"]] == [("economy", 1120), ("full", 40)]
    assert [tier["milliseconds"] for tier in cost["tiers"]] == pytest.approx([4.2, 225])
    assert [tier["share"] for tier in cost["tiers"]] == pytest.approx([1 / 3, 2 / 3])
    assert head["cost"]["short"] == "4.5% of 5%", "the same number as everywhere"
    assert cost["said"] == "tracking 4.5% of 5%"
    assert old["cost"]["tiers"] == []


def test_a_loss_that_is_not_finite_is_said(tmp_path: Path) -> None:
    for name, value in (("nan", math.nan), ("inf", math.inf)):
        writer = store.create(tmp_path / name, {"name": name})
        writer.append([Record(0, "Loss", Kind.SCALAR, 1.0), Record(1, "Loss", Kind.SCALAR, value)])
        writer.close()
    with connect(tmp_path) as client:
        listed = {run["id"]: run["loss"] for run in get(client, "/api/runs")["runs"]}
        rows = {row["key"]: row["values"] for row in get(client, "/api/compare?run=nan&run=inf")["rows"]}
    assert listed == {"nan": "NaN", "inf": "inf"}
    assert rows["last loss"] == ["NaN", "inf"]
    assert rows["lowest loss"] == [1.0, 1.0]


def test_columns_beside_each_other_share_their_axes(tmp_path: Path) -> None:
    for name, steps, losses in (("long", (1, 50, 2000), (1e3, 1.0, 1e-3)), ("short", (0, 10, 20), (1.0, 0.9, 0.8))):
        writer = store.create(tmp_path / name, {"name": name})
        pairs = zip(steps, losses, strict=True)
        writer.append([Record(step, "Loss", Kind.SCALAR, value) for step, value in pairs])
        writer.close()
    with connect(tmp_path) as client:
        answer = get(client, "/api/sides?run=long&run=short")
        alone = [get(client, f"/api/deck?run={name}")["panels"] for name in ("long", "short")]
        known = ",".join(f"0~{panel['id']}:{panel['marks']}" for panel in answer["columns"][0]["panels"])
        again = get(client, f"/api/sides?run=long&run=short&known={known}")["columns"]
    long, short = ({panel["id"]: panel for panel in column["panels"]}["loss"] for column in answer["columns"])
    assert long["spec"] == short["spec"]
    assert long["params"] == short["params"]
    assert [row["step"] for row in short["datasets"]["lines"]] == [0, 10, 20]
    apart = [next(panel for panel in panels if panel["id"] == "loss")["spec"] for panels in alone]
    assert apart[0]["encoding"] != apart[1]["encoding"], "alone they differ, or this test proves nothing"
    assert not any("spec" in panel for panel in again[0]["panels"])
    assert all("spec" in panel for panel in again[1]["panels"])


def test_names_that_steer_the_writing_are_shown_as_plain_text(tmp_path: Path) -> None:
    write(tmp_path / "a", name="x\u202egnp.exe", steps=())
    write(tmp_path / "b", name="  ", steps=())
    with connect(tmp_path) as client:
        listed = {run["id"]: run["name"] for run in get(client, "/api/runs")["runs"]}
    assert listed == {"a": "x\ufffdgnp.exe", "b": "b"}


@pytest.mark.skipif(sys.platform != "linux", reason="only there a name may be any bytes")
def test_a_folder_whose_name_is_no_text_can_be_opened(tmp_path: Path) -> None:
    write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad-\xff")), steps=range(2))
    with connect(tmp_path) as client:
        (run,) = get(client, "/api/runs")["runs"]
        assert get(client, f"/api/deck?run={quote(run['id'])}")["runs"][0]["step"] == 1


def test_compare_tells_what_differs(client: TestClient) -> None:
    answer = get(client, "/api/compare?run=first&run=sweep/second")
    rows = {row["key"]: row["values"] for row in answer["rows"]}
    assert rows["model elements"] == [10, 20]
    assert "model class" not in rows
    assert rows["last loss"][0] == pytest.approx(0.52, abs=0.01)


@pytest.mark.parametrize("bad", ["../..", "/etc", "first/../first", "", "nothing"])
def test_a_run_that_is_not_listed_is_not_looked_for(client: TestClient, bad: str) -> None:
    assert "run" in get(client, f"/api/deck?run={bad}", 404 if bad else 400)["error"]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("axis=round", "linear"),
        ("lo=5&hi=1", "below"),
        ("smooth=x", "number"),
        ("step=nan", "number"),
        ("lo=a&hi=2", "lo"),
    ],
)
def test_a_wrong_question_is_answered_with_the_remedy(client: TestClient, query: str, word: str) -> None:
    assert word in get(client, f"/api/deck?run=first&{query}", 400)["error"]
