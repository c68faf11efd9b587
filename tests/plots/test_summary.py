"""The state of a run in plain numbers."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
from tests.plots.samples import LATER, METADATA, records

from cockpit import store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.plots.summary import summary, taken

UNKNOWN: dict[str, Any] = {"allowed": None, "used": None, "step_seconds": None, "tiers": []}


class Known(Recorded):
    """A run that knows its state."""

    state, reason = "running", None
    path, reached, updated = "/runs/a", 12, METADATA["started"] + 50.0


def facts(found: list[Record] | None = None, **metadata: Any) -> dict[str, Any]:
    return summary(Known(records() if found is None else found, "a", {**METADATA, **metadata}))


def test_it_is_pure_json() -> None:
    found = [*records(), Record(10, "Loss", Kind.SCALAR, inf)]
    assert json.loads(json.dumps(facts(found), allow_nan=False))["loss"] is None


def test_stable_keys() -> None:
    keys = "name path state reason step first steps started updated elapsed loss metrics quantities undefined lost"
    assert list(facts()) == [*keys.split(), "damaged", "cost"]


def test_values() -> None:
    found = facts()
    assert (found["name"], found["path"], found["state"]) == ("a", "/runs/a", "running")
    assert (found["step"], found["first"], found["steps"], found["elapsed"]) == (11, 0, 20, 50.0)
    assert found["loss"] == 0.2
    known = {"last": 7.5, "step": 9, "min": 7.5, "max": 7.5, "not_finite": 1, "not_finite_since": None}
    assert found["metrics"] == {"Fuel": known}
    assert found["quantities"]["GradNorm"]["kind"] == "per_parameter"
    assert found["quantities"]["GradNorm"]["last"] == 5.0
    assert found["quantities"]["tracking_seconds"]["last"] == 0.5
    assert found["undefined"] == {"Alpha": {LATER: {"count": 1, "first": 9, "last": 9}}}
    assert found["cost"] == {"seconds": 5.0, "share": 0.1, "tracked": 10, **UNKNOWN}


@pytest.mark.parametrize(
    ("reached", "recorded", "step"),
    [
        (10, 9, 9),  # the last step was recorded
        (10, 4, 9),  # and where it was not
        (10, None, 9),
        (9, 9, 9),  # the record came before the news that the step is taken
        (5, 9, 4),  # continued at step 5; the records after it are from before
        (None, 9, 9),  # a log says nothing else
        (0, None, None),
        (None, None, None),
    ],
)
def test_the_last_step_that_was_taken(reached: int | None, recorded: int | None, step: int | None) -> None:
    assert taken(reached, recorded) == step


def test_the_step_in_memory_is_the_one_on_disk(tmp_path: Path) -> None:
    """A live watch, a run that is written, and a finished one say the same of the same training."""
    some = [record for record in records() if record.step <= 4]
    writer = store.create(tmp_path / "a", METADATA)
    writer.append(some)
    writer.step = 10
    writer.close()
    live, ended = Recorded(some, "a", reached=10), store.StoredRun(tmp_path / "a")
    assert summary(live)["step"] == summary(ended)["step"] == 9


def test_a_run_that_begins_at_a_later_step(tmp_path: Path) -> None:
    writer = store.create(tmp_path / "a", METADATA, first_step=100)
    writer.step = 100
    writer.close()
    assert summary(store.StoredRun(tmp_path / "a"))["step"] is None


def test_further_learning_rates_are_not_the_user_s() -> None:
    found = facts([Record(0, "learning_rate[1]", Kind.SCALAR, 0.1), Record(0, "accuracy", Kind.SCALAR, 0.5)])
    assert list(found["metrics"]) == ["accuracy"]


@pytest.mark.parametrize("metadata", [{}, {"cost": None, "quantities": None, "started": "?", "steps": None}])
def test_little_is_known(metadata: dict[str, Any]) -> None:
    found = summary(Recorded(records(), "log", metadata))
    assert (found["step"], found["state"], found["elapsed"], found["cost"]["share"]) == (9, None, None, None)
    assert "Fuel" in found["metrics"]


def test_cost_as_the_tracker_told_it() -> None:
    told = {"cost": {"seconds": {"tracked steps": 3.0, "Loss": 1.0}, "tracked": 7, "elapsed": 30.0}}
    assert summary(Recorded([], "a", told))["cost"] == {"seconds": 3.0, "share": 0.1, "tracked": 7, **UNKNOWN}


def test_cost_as_it_was_metered() -> None:
    """Against plain steps: this also counts what our own clock does not see."""
    tiers = [{"tier": 1, "name": "economy", "tracked": 9, "alone": 9, "seconds": 4.5, "mean": 0.5, "interval": 20.0}]
    budget = {"share": 0.05, "used": 0.04, "spent": 10.0, "trained": 90.0, "plain": 0.01, "tiers": tiers}
    found = facts(cost={"seconds": {"tracked steps": 3.0}, "tracked": 7, "budget": budget})["cost"]
    assert (found["seconds"], found["share"], found["tracked"]) == (10.0, 0.1, 10)
    assert (found["allowed"], found["used"], found["step_seconds"]) == (0.05, 0.04, 0.01)
    assert found["tiers"] == [{"name": "economy", "tracked": 9, "seconds": 0.5, "interval": 20.0}]


def test_nothing_recorded() -> None:
    found = summary(Recorded([]))
    assert (found["step"], found["first"], found["loss"], found["quantities"]) == (None, None, None, {})
