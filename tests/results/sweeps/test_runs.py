from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.results.sweeps.plans import PLAN, QUADRATIC, SGD, plan

from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.plan import SweepPlan, read
from cockpit.results.sweeps.runs import groups


def test_everything_that_defines_a_run_is_in_its_id() -> None:
    def first(changed: SweepPlan) -> str:
        return groups(changed)[0].oneshot()[0].id

    problems = [
        replace(QUADRATIC, name="two_d_beale"),
        replace(QUADRATIC, version=2),
        replace(QUADRATIC, epochs=3),
        replace(QUADRATIC, batch=64),
        replace(QUADRATIC, order="fixed"),
        replace(QUADRATIC, matrix=1),
        replace(QUADRATIC, precision="float64"),
        replace(QUADRATIC, options={"l2": 0.1}),
    ]
    contenders = [replace(SGD, name="X"), replace(SGD, version=2), replace(SGD, defaults={"lr": 0.02})]
    changed = [plan(problems=(one,)) for one in problems] + [plan(optimizers=(one,)) for one in contenders]
    changed += [plan(schedules=("cosine",)), plan(seed=(43,))]
    assert len({first(one) for one in [PLAN, *changed]}) == len(changed) + 1
    unimportant = [plan(name="other"), plan(budgets=("oneshot",)), plan(seeds=3), plan(search="study")]
    unimportant += [plan(optimizers=(replace(SGD, space={}),), budgets=("oneshot",))]
    assert {first(one) for one in unimportant} == {first(PLAN)}


def test_ids_last() -> None:
    spec = groups(PLAN)[0].oneshot()[0]
    assert spec.id == "" or len(spec.id) == 24
    assert spec.identity["optimizer"] == "SGD"
    assert spec.identity["hyperparameters"] == {"lr": 0.01}


def test_a_plan_survives_json() -> None:
    again = read(json.loads(json.dumps(PLAN.plain())))
    assert again == PLAN
    with pytest.raises(CockpitError, match="format 9"):
        read(PLAN.plain() | {"format": 9})
    with pytest.raises(CockpitError, match="cannot be read"):
        read({"format": 1})
