"""The rows of the table of runs."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

from tests.dashboard.runs import write

from cockpit import store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.summaries import settings

OPTIMIZER = {"class": "SGD", "groups": [{"lr": 0.1, "momentum": 0.9, "foreach": None, "parameters": 4}]}


def logged(folder: Path, **series: list[float]) -> None:
    writer = store.create(folder, {"name": folder.name, "config": {"depth": 3, "data": {"name": "digits"}}})
    for name, values in series.items():
        writer.append([Record(step, name, Kind.SCALAR, value) for step, value in enumerate(values)])
    writer.close()


def row(folder: Path, ident: str) -> dict[str, Any]:
    rows, waiting = Fleet(folder).summaries.rows(10.0)
    assert waiting == 0
    return next(one for one in rows if one["id"] == ident)


def test_last_and_best_of_what_was_logged(tmp_path: Path) -> None:
    logged(tmp_path / "a", Loss=[3.0, 1.0, 2.0], val_accuracy=[0.1, 0.8, 0.6], GradNorm=[1.0])
    found = row(tmp_path, "a")
    assert found["metrics"] == {
        "Loss": {"last": 2.0, "best": 1.0, "at": 1, "falls": True},
        "val_accuracy": {"last": 0.6, "best": 0.8, "at": 1, "falls": False},
    }
    assert found["settings"] == {"depth": 3, "data name": "digits"}
    assert (found["state"], found["broken"]) == ("finished", None)


def test_a_run_that_broke(tmp_path: Path) -> None:
    logged(tmp_path / "a", Loss=[3.0, nan])
    found = row(tmp_path, "a")
    assert found["broken"] == "NaN since step 1"
    assert found["metrics"]["Loss"] == {"last": "NaN", "best": 3.0, "at": 0, "falls": True}


def test_what_the_run_was_started_with() -> None:
    found = settings({"model": {"class": "Net", "elements": 10, "layers": []}, "optimizers": [OPTIMIZER, OPTIMIZER]})
    assert found == {
        **{"model": "Net", "parameters": 10, "optimizer": "SGD", "optimizer lr": 0.1, "optimizer momentum": 0.9},
        **{"1 optimizer": "SGD", "1 optimizer lr": 0.1, "1 optimizer momentum": 0.9},
    }
    assert settings({"config": 3, "model": "x", "optimizers": ["y"]}) == {}


def test_rows_are_read_once_and_as_far_as_time_allows(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / name, steps=range(3), name=name)
    summaries = Fleet(tmp_path).summaries
    rows, waiting = summaries.rows(0.0)
    assert (len(rows), waiting) == (3, 3), "the list itself does not wait"
    assert rows[0]["state"] == "finished"
    assert "metrics" not in rows[0]
    assert summaries.rows(10.0)[1] == 0
    assert summaries.rows(0.0)[1] == 0, "what was read is known"
