"""Another sweep's results as baselines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.results.sweeps.plans import QUADRATIC, SGD, entry, plan
from tests.results.sweeps.test_cells import filled

from cockpit.results.sweeps.baselines import joined
from cockpit.results.sweeps.plan import Contender, SweepPlan
from cockpit.results.sweeps.reading import Reading, read
from cockpit.results.sweeps.report import Report

ADAM = Contender("Adam", 1, {"lr": 0.001}, {"lr": {"log": [1e-4, 1.0]}}, studied=True)
MINE = Contender("my_opt:Mine", "abc", {"lr": 0.1}, {"lr": {"log": [1e-4, 1.0]}})
NEW = plan(name="new", optimizers=(MINE,), seeds=3)
OLD = plan(name="old", optimizers=(SGD, ADAM), seeds=3)


def reading(folder: Path, wanted: SweepPlan) -> Reading:
    def make(spec: Any) -> Any:
        level = {"SGD": 1.0, "Adam": 2.0}.get(spec.contender.name, 3.0)
        return entry(spec, test=level + 0.01 * spec.seed + 0.001 * (spec.seed**3 % 7) * level)

    return read(filled(folder / wanted.name, wanted, make))


def reasons(folder: Path, **changes: Any) -> set[str]:
    cells, refused = joined(reading(folder, NEW), [reading(folder, replace(OLD, **changes))])
    assert {one.optimizer for one in cells} == {"my_opt:Mine"}
    return {one.reason for one in refused}


def test_a_new_optimizer_beside_old_ones(tmp_path: Path) -> None:
    found = Report(reading(tmp_path, NEW), (reading(tmp_path, OLD),))
    assert [(one.optimizer, one.budget) for one in found.cells] == [
        *[("my_opt:Mine", budget) for budget in ("oneshot", "small")],
        *[("SGD", budget) for budget in ("oneshot", "small")],
        *[("Adam", budget) for budget in ("oneshot", "small")],
    ]
    assert found.refused == []
    small = {(one.a, one.b): one.n for one in found.comparisons if one.budget == "small"}
    assert small == {("my_opt:Mine", "SGD"): 2, ("my_opt:Mine", "Adam"): 2, ("SGD", "Adam"): 2}
    assert found.plain()["not_compared"] == []
    (headline,) = found.several
    assert headline.optimizers == 3
    assert set(headline.tuned) == {"my_opt:Mine", "SGD", "Adam"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"problems": (replace(QUADRATIC, epochs=3),)}, "epochs 3, here 2"),
        ({"problems": (replace(QUADRATIC, batch=64),)}, "batch size 64, here 128"),
        ({"problems": (replace(QUADRATIC, order="fixed"),)}, "order fixed, here fresh"),
        ({"problems": (replace(QUADRATIC, precision="float64"),)}, "precision float64, here float32"),
        ({"problems": (replace(QUADRATIC, matrix=3),)}, "matrix 3, here 0"),
        ({"problems": (replace(QUADRATIC, version=2),)}, "version 2, here 1"),
        ({"problems": (replace(QUADRATIC, options={"l2": 0.1}),)}, "options {'l2': 0.1}, here {}"),
        ({"problems": (replace(QUADRATIC, name="digits"),)}, "this sweep has no digits"),
        ({"seeds": 4}, "seeds 42 to 45, here 42 to 44"),
        ({"seed": (7,)}, "tuned with seed 7, here 42"),
        ({"schedules": ("cosine",), "budgets": ("oneshot",)}, "this sweep has no budget oneshot with schedule cosine"),
    ],
)
def test_what_differs_is_listed_with_the_reason(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    assert reasons(tmp_path, **changes) == {reason}


def test_a_larger_budget_of_a_baseline(tmp_path: Path) -> None:
    """What both have is compared; of the headline, too, only these settings count."""
    larger = reading(tmp_path, replace(OLD, budgets=("oneshot", "small", "medium")))
    found = Report(reading(tmp_path, NEW), (larger,))
    assert {one.reason for one in found.refused} == {"this sweep has no budget medium with schedule constant"}
    (headline,) = found.several
    assert set(headline.tuned) == {"my_opt:Mine", "SGD", "Adam"}


def test_matrices_that_drift(tmp_path: Path) -> None:
    """Only those of tuned cells: one-shot runs have the first one in both."""
    other = reading(tmp_path, replace(OLD, protocol="crowded-valley"))
    cells, refused = joined(reading(tmp_path, NEW), [other])
    assert {(one.budget, one.reason) for one in refused} == {("small", "matrices drifting, here the same")}
    assert {one.budget for one in cells if one.optimizer == "SGD"} == {"oneshot"}


def test_the_same_optimizer_in_both(tmp_path: Path) -> None:
    own = reading(tmp_path, replace(NEW, optimizers=(MINE, SGD)))
    cells, refused = joined(own, [reading(tmp_path, OLD)])
    assert {(one.optimizer, one.reason) for one in refused} == {("SGD", "it is there already")}
    assert len(cells) == 6
    changed = reading(tmp_path, replace(OLD, name="older", optimizers=(replace(SGD, version=2),)))
    cells, refused = joined(own, [changed])
    assert refused == []
    assert {one.optimizer for one in cells} == {"my_opt:Mine", "SGD", "SGD (older)"}
