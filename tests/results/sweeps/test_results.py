"""A sweep read by tables and figures of single runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.results.sweeps.plans import QUADRATIC, SGD, entry, plan
from tests.results.sweeps.test_cells import filled

from cockpit.results import folder
from cockpit.results.sweeps.results import results
from cockpit.results.sweeps.runs import Spec
from cockpit.results.tables import table


def test_every_run_that_ended(tmp_path: Path) -> None:
    def make(spec: Spec) -> Any:
        if spec.seed == 44:
            return entry(spec, state="failed", message="out of memory")
        if spec.seed == 43:
            return entry(spec, state="diverged", diverged=1, length=1)
        return entry(spec, valid=spec.hyperparameters["lr"], test=87.0)

    options = {"no_validation": True, "l2": 0.5}
    task = replace(QUADRATIC, order="fixed", matrix=3, precision="float64", options=options, target=88.0)
    mine = replace(SGD, name="my:Opt", version="abc")
    store = filled(tmp_path, plan(problems=(task,), optimizers=(SGD, mine), seeds=3), make)
    found = list(results(store.folder))
    assert len(found) == 2 * (2 + 25 + 1)
    one = next(run for run in found if run.optimizer == "SGD" and run.seed == 42)
    assert (one.problem, one.batch_size, one.epochs, one.schedule, one.target) == (
        "quadratic_deep",
        128,
        2,
        "constant",
        88.0,
    )
    assert one.variant == {"validation": False, "l2": 0.5, "order": "fixed", "hessian": 3, "dtype": "float64"}
    assert one.curves["test_loss"] == [87.0] * 3
    assert (one.rule, one.code, one.problem_code) == (1, None, None)
    other = next(run for run in found if run.optimizer == "my:Opt")
    assert (other.rule, other.code) == (None, "abc")
    assert {run.diverged for run in found if run.seed == 43} == {1}


def test_found_like_any_other(tmp_path: Path) -> None:
    store = filled(tmp_path, plan(seeds=2), lambda spec: entry(spec, valid=spec.hyperparameters["lr"], test=87.0))
    found = folder.find(tmp_path)
    assert len(found) == 2 + 25 + 1
    assert folder.find(store.folder) == found
    assert folder.holds(tmp_path)
    cell = table(found).cells["quadratic_deep", "SGD"]
    assert (cell.performance, cell.seeds) == (87.0, 2)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sweep.db").write_text("no database")
    again = folder.find(tmp_path)
    assert again == found
    assert "broken" in again.problems[0]
