"""What a run is to do, checked."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.bench.tiny import losses

from cockpit import problems
from cockpit.bench.plan import make_plan, meant
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Problem, Variant
from cockpit.problems.two_d_branin import branin
from cockpit.results import deepobs
from cockpit.results.summary import TARGETS

COPIES: list[Callable[[Problem], Problem]] = [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]


@pytest.mark.parametrize("name", problems.names())
@pytest.mark.parametrize("copied", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_a_copy_of_a_problem_is_that_problem(name: str, copied: Callable[[Problem], Problem]) -> None:
    again = copied(problems.get(name))
    given = {"seed": 1, "epochs": 1, "batch_size": 2}
    assert make_plan(again, "SGD", **given).settings() == make_plan(name, "SGD", **given).settings()


def test_what_is_said_about_a_problem_does_not_matter() -> None:
    make_plan(replace(problems.get("mnist_mlp"), summary="mine", paper=None), "SGD", seed=1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mnist_mlp", {"epochs": 3}),
        ("mnist_mlp", {"batch_size": 3}),
        ("mnist_mlp", {"target": 0.5}),
        ("mnist_mlp", {"l2": 0.5}),
        ("mnist_mlp", {"losses": losses}),
        ("two_d_beale", {"model": partial(problems.get("two_d_beale").model, start=(0.0, 0.0))}),
        ("two_d_beale", {"model": partial(problems.get("two_d_beale").model, function=branin)}),
        ("quadratic_deep", {"model": lambda seed: torch.nn.Linear(2, 2)}),
    ],
)
def test_another_problem_of_that_name_is_refused(name: str, change: dict[str, Any]) -> None:
    changed = replace(problems.get(name), **change)
    with pytest.raises(CockpitError, match=f"{name} is the name of another problem"):
        make_plan(changed, "SGD", seed=1, epochs=1, batch_size=2)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    plan = make_plan("digits", "SGD", seed=np.int64(3), epochs=np.int32(2), batch_size=np.int64(4))  # type: ignore[arg-type]
    assert [type(value) for value in (plan.seed, plan.epochs, plan.batch_size)] == [int, int, int]
    assert plan.settings() == make_plan("digits", "SGD", seed=3, epochs=2, batch_size=4).settings()
    with pytest.raises(CockpitError, match=r"seed is .*1\.5"):
        make_plan("digits", "SGD", seed=np.float64(1.5))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TARGETS)
def test_the_published_runs_can_be_set_up(name: str) -> None:
    """All parts of a variant that the runs of table 5.2 had, where a problem has them."""
    old = {"testproblem": name, "optimizer": "GradientDescentOptimizer", "learning_rate": 0.1, "batch_size": 2}
    stored = deepobs.result({**old, "num_epochs": 1, "random_seed": 1, "test_losses": [2, 1], "train_losses": [2, 1]})
    full = Variant(False, "fixed", label_leak=True, shuffled_eval=True, cut=True, whole_eval=True)
    plan = make_plan(name, "SGD", seed=1, epochs=1, batch_size=2, variant=meant(full, name))
    assert plan.result().variant == stored.variant
