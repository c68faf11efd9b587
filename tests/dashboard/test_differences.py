from __future__ import annotations

from typing import Any

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.dashboard.differences import differences


def rows(*metadata: dict[str, Any]) -> dict[str, list[Any]]:
    records = [Record(step, "Loss", Kind.SCALAR, value) for step, value in enumerate((3.0, 1.0, 2.0))]
    return {row["key"]: row["values"] for row in differences([Recorded(records, "run", one) for one in metadata])}


def test_only_settings_that_differ_are_listed() -> None:
    one = {"loss": "MSELoss", "optimizers": [{"class": "SGD", "groups": [{"lr": 0.1, "momentum": 0.9}]}]}
    two = {"loss": "MSELoss", "optimizers": [{"class": "SGD", "groups": [{"lr": 0.2, "momentum": 0.9}]}]}
    found = rows(one, two)
    assert found["optimizers groups lr"] == [0.1, 0.2]
    assert "loss" not in found
    assert "optimizers groups momentum" not in found


def test_results_come_first() -> None:
    found = rows({"steps": 3}, {})
    assert list(found)[:3] == ["last loss", "lowest loss", "at step"]
    assert (found["last loss"], found["lowest loss"], found["at step"]) == ([2.0] * 2, [1.0] * 2, [1, 1])
    assert found["steps"] == [3, None]


def test_long_lists_of_layers_are_left_out() -> None:
    found = rows({"model": {"class": "A", "layers": [{"name": "0"}]}}, {"model": {"class": "B", "layers": []}})
    assert found["model class"] == ["A", "B"]
    assert not any("layers" in key for key in found)


def test_a_run_without_losses_or_metadata() -> None:
    found = {row["key"]: row["values"] for row in differences([Recorded([])])}
    assert found == {"last loss": [None], "lowest loss": [None], "at step": [None]}
