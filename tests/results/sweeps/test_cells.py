from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.results.sweeps.plans import PLAN, QUADRATIC, entry, plan

from cockpit.results.sweeps.cells import Cell, cells, judged, report
from cockpit.results.sweeps.plan import SweepPlan
from cockpit.results.sweeps.runs import Spec, groups
from cockpit.results.sweeps.selection import chosen
from cockpit.results.sweeps.status import status
from cockpit.results.sweeps.store import Store, create


def filled(folder: Path, wanted: SweepPlan, make: Any = entry) -> Store:
    """A store with all results of a plan."""
    store = create(folder / "store", wanted)
    while True:
        rows = store.rows()
        new = [spec for group in groups(wanted) for one in chosen(group, rows) for spec in one.specs]
        new = [spec for spec in new if spec.id not in rows]
        if not new:
            return store
        store.commit([make(spec) for spec in new])


def by_budget(store: Store, wanted: SweepPlan) -> dict[str, Cell]:
    return {one.budget: one for one in cells(store, wanted)}


def test_means_over_seeds(tmp_path: Path) -> None:
    store = filled(tmp_path, PLAN, lambda spec: entry(spec, spec.hyperparameters["lr"], test=spec.seed**2))
    found = by_budget(store, PLAN)
    values = [float(seed**2) for seed in range(42, 52)]
    for one in found.values():
        assert one.values == values
        assert one.seeds == list(range(42, 52))
        assert math.isclose(one.mean or 0, np.mean(values))
        assert math.isclose(one.std or 0, np.std(values))
        assert one.train == {"mean": 3.0, "std": 0.0, "values": [3.0] * 10}
        assert (one.metric, one.epoch, one.diverged, one.missing) == ("test_loss", 2, 0, 0)
    assert found["oneshot"].trial is None
    assert found["oneshot"].validation == 0.01
    assert found["small"].hyperparameters == {"lr": found["small"].validation}


def test_a_seed_that_diverged_has_no_value_and_there_is_no_mean(tmp_path: Path) -> None:
    def make(spec: Spec) -> Any:
        bad = spec.seed == 44
        return entry(spec, state="diverged" if bad else "finished", diverged=2 if bad else None, length=2 if bad else 3)

    one = by_budget(filled(tmp_path, PLAN, make), PLAN)["small"]
    assert one.values == [2.0, 2.0, None, *[2.0] * 7]
    assert (one.mean, one.std, one.diverged, one.seeds) == (None, None, 1, list(range(42, 52)))
    assert one.train["values"] == [3.0, 3.0, None, *[3.0] * 7]
    assert one.train["mean"] is None


def test_a_seed_that_failed_is_absent(tmp_path: Path) -> None:
    store = filled(tmp_path, PLAN, lambda spec: entry(spec, state="failed" if spec.seed == 44 else "finished"))
    one = by_budget(store, PLAN)["small"]
    assert one.seeds == [42, 43, *range(45, 52)]
    assert (one.values, one.mean, one.missing) == ([2.0] * 9, 2.0, 0)


def test_no_survivor(tmp_path: Path) -> None:
    store = filled(tmp_path, PLAN, lambda spec: entry(spec, state="diverged", diverged=1, length=1))
    one = by_budget(store, PLAN)["small"]
    assert (one.trial, one.mean, one.diverged, one.values) == (0, None, 10, [None] * 10)
    assert one.validation is None
    told = status(PLAN, store, alive=False)
    assert (told["state"], told["runs"]["diverged"], told["runs"]["left"]) == ("complete", 44, 0)


@pytest.mark.parametrize(
    ("epochs", "end"), [(5, 5), (9, 9), (10, 10), (29, 10), (50, 30), (100, 70), (160, 150), (200, 150), (350, 310)]
)
def test_warm_restarts_count_at_the_end_of_a_cycle(tmp_path: Path, epochs: int, end: int) -> None:
    assert judged("cosine_wr", epochs) == end
    assert judged("cosine", epochs) == epochs
    wanted = plan(problems=(replace(QUADRATIC, epochs=epochs),), schedules=("cosine_wr",), budgets=("5",))

    def make(spec: Spec) -> Any:
        found = entry(spec)
        places = [float(place) for place in range(epochs + 1)]
        object.__setattr__(found, "curves", dict.fromkeys(found.curves, places))
        return found

    one = by_budget(filled(tmp_path, wanted, make), wanted)["5"]
    assert (one.epoch, one.mean, one.validation) == (end, end, epochs)  # tuned on the last epoch


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    store = create(tmp_path / "store", PLAN)
    named = {"problem": "quadratic_deep", "optimizer": "SGD", "schedule": "constant", "tuning_seed": 42}
    lacking = [{**named, "budget": "oneshot", "runs": 10}, {**named, "budget": "small", "runs": 34}]
    assert report(cells(store, PLAN)) == {"cells": [], "comparisons": [], "score": None, "missing": lacking}
    store.commit([entry(spec) for spec in groups(PLAN)[0].oneshot()[:4]])
    found = report(cells(store, PLAN))
    assert [(one["budget"], one["seeds"]) for one in found["cells"]] == [("oneshot", [42, 43, 44, 45])]
    assert [one["runs"] for one in found["missing"]] == [6, 34]


def test_results_that_the_plan_does_not_name_are_not_shown(tmp_path: Path) -> None:
    store = filled(tmp_path, PLAN)
    less = plan(budgets=("oneshot",), seeds=3)
    (one,) = cells(store, less)
    assert one.seeds == [42, 43, 44]
    assert status(less, store, alive=False)["runs"]["distinct"] == 3
