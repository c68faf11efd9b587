from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from tests.results.sweeps.plans import PLAN, QUADRATIC, SGD, entry, plan, row
from tests.results.sweeps.test_cells import filled

from cockpit.results.sweeps.cells import cells
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.selection import chosen
from cockpit.results.sweeps.status import count, nominal, seconds_left, status
from cockpit.results.sweeps.store import create


def test_nominal_runs() -> None:
    assert nominal(PLAN) == 10 + 25 + 9
    four = plan(budgets=("oneshot", "small", "medium", "large"), schedules=("constant", "cosine", "cosine_wr", "ltr"))
    assert nominal(four) == 4 * 112
    assert nominal(plan(seed=(42, 7), tuning_seeds=3, budgets=("small",))) == 2 * (75 + 9)


def test_a_sweep_that_has_not_begun(tmp_path: Path) -> None:
    told = status(PLAN, None, alive=False)
    assert told == {
        "name": "test",
        "state": "stopped",
        "runs": {"nominal": 44, "distinct": 44, "finished": 0, "diverged": 0, "failed": 0, "leased": 0, "left": 44},
        "seconds_left": None,
        "failures": [],
    }


def test_failures_and_results(tmp_path: Path) -> None:
    store = create(tmp_path / "store", PLAN)
    specs = groups(PLAN)[0].oneshot()
    store.commit([entry(specs[0]), entry(specs[1], state="failed", message="no memory")], {"x": 1})
    told = status(PLAN, store, alive=True, details=True)
    assert told["state"] == "running"
    assert told["runs"].items() >= {"finished": 1, "failed": 1, "leased": 1, "left": 42}.items()
    named = {"problem": "quadratic_deep", "optimizer": "SGD", "hyperparameters": {"lr": 0.01}, "schedule": "constant"}
    assert told["failures"] == [{"id": specs[1].id, **named, "seed": 43, "message": "no memory"}]
    assert {one["id"]: one["state"] for one in told["results"]} == {specs[0].id: "finished", specs[1].id: "failed"}
    kept = next(one for one in told["results"] if one["id"] == specs[0].id)
    assert kept["curves"]["test_loss"] == [2.0, 2.0, 2.0]
    assert "seconds" not in kept


def test_time_left_goes_by_optimizers() -> None:
    wanted = plan(optimizers=(SGD, replace(SGD, name="slow")), budgets=("oneshot",))
    first, second = groups(wanted)
    rows = {first.oneshot()[0].id: replace(row(1.0), seconds=1.0)}
    rows |= {second.oneshot()[0].id: replace(row(1.0), seconds=10.0)}
    counted = count([one for group in groups(wanted) for one in chosen(group, rows)], rows)
    assert seconds_left(counted) == 9 * 1.0 + 9 * 10.0


def test_time_of_a_summary(tmp_path: Path) -> None:
    """Of 100,000 runs in two seconds, and so of 6,600 in 0.13; here three times that, on a busy machine."""
    tasks = tuple(replace(QUADRATIC, name=f"p{number}") for number in range(10))
    names = tuple(replace(SGD, name=f"o{number}") for number in range(10))
    wanted = plan(problems=tasks, optimizers=names, budgets=("oneshot", "medium"))
    store = filled(tmp_path, wanted, lambda spec: entry(spec, valid=spec.hyperparameters["lr"]))
    begin = time.process_time()
    told = status(wanted, store, alive=False)
    middle = time.process_time()
    found = cells(store, wanted)
    assert told["runs"]["distinct"] == told["runs"]["finished"] >= 6600
    assert all(one.missing == 0 for one in found)
    assert middle - begin < 0.4
    assert time.process_time() - middle < 0.5


def test_runs_are_counted_once() -> None:
    """What is to do is known exactly where no winner's runs are waited for."""
    few = {**SGD.space, "lr": {"choice": [0.001, 0.01, 0.1]}}
    for wanted, named, unknown in (
        (plan(budgets=("oneshot", "small", "medium")), 10 + 50, 9 + 9),
        (plan(budgets=("medium", "large")), 50, 9 + 25 + 9),
        (plan(budgets=("5", "9"), search="grid", optimizers=(replace(SGD, space=few),), seeds=3), 3, 2),
        (plan(budgets=("5", "9"), optimizers=(replace(SGD, space={"lr": 0.1}),), seeds=3), 1, 2),
        (plan(budgets=("5",), tuning_seeds=3, seeds=3), 15, 0),
        (plan(budgets=("5",), tuning_seeds=2, seeds=3), 10, 1),
        (plan(budgets=("5",), tuning_seeds=2, seeds=3, protocol="crowded-valley"), 10, 2),
        (plan(budgets=("oneshot",), seed=(42, 43), seeds=3), 4, 0),
    ):
        counted = count([one for group in groups(wanted) for one in chosen(group, {})], {})
        assert (len(counted.specs), counted.unknown) == (named, unknown)
