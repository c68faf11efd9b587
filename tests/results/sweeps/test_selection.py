from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.results.sweeps.plans import ADAM, QUADRATIC, SGD, plan, row

from cockpit.results.sweeps.plan import Contender
from cockpit.results.sweeps.runs import Group, Spec, groups
from cockpit.results.sweeps.selection import Chosen, chosen
from cockpit.results.sweeps.store import Row


def alone(**changes: Any) -> Group:
    (group,) = groups(plan(**changes))
    return group


def settled(group: Group, valued: Any, rows: dict[str, Row] | None = None) -> tuple[list[Chosen], dict[str, Row]]:
    """The cells when every run has ended; ``valued`` makes its row."""
    rows = {} if rows is None else rows
    while True:
        cells = chosen(group, rows)
        new = {spec.id: spec for one in cells for spec in one.specs if spec.id not in rows}
        if not new:
            return cells, rows
        rows |= {id: valued(spec) for id, spec in new.items()}


def rate(spec: Spec) -> float:
    return float(spec.hyperparameters["lr"])


def test_nothing_is_known_at_first() -> None:
    oneshot, small = chosen(alone(), {})
    assert [spec.seed for spec in oneshot.reported] == list(range(42, 52))
    assert {rate(spec) for spec in oneshot.reported} == {0.01}
    assert len({spec.id for spec in small.tried}) == 25
    assert {spec.seed for spec in small.tried} == {42}
    assert (small.unknown, small.trial, small.reported) == (9, None, [])


def test_the_winner_is_rerun() -> None:
    (_, small), rows = settled(alone(), lambda spec: row(abs(math.log10(rate(spec)) + 2)))
    scores = [abs(math.log10(rate(spec)) + 2) for spec in small.tried]
    assert small.trial == int(np.argmin(scores))
    assert small.reported[0] is small.tried[small.trial]
    assert [spec.seed for spec in small.reported] == list(range(42, 52))
    assert {rate(spec) for spec in small.reported} == {rate(small.tried[small.trial])}
    assert len(rows) == 10 + 25 + 9


def test_more_is_better_for_accuracies() -> None:
    group = alone(problems=(replace(QUADRATIC, metric="accuracy"),))
    (_, small), _ = settled(group, lambda spec: row(-abs(math.log10(rate(spec)) + 2)))
    assert small.trial == int(np.argmin([abs(math.log10(rate(spec)) + 2) for spec in small.tried]))


def test_ties_go_to_the_first() -> None:
    (_, small), _ = settled(alone(), lambda spec: row(1.0))
    assert small.trial == 0


@pytest.mark.parametrize("state", ["diverged", "failed"])
def test_what_has_not_survived_never_wins(state: str) -> None:
    (_, small), _ = settled(alone(), lambda spec: row(rate(spec), "finished" if rate(spec) > 0.1 else state))
    assert rate(small.reported[0]) == min(rate(spec) for spec in small.tried if rate(spec) > 0.1)


def test_without_a_survivor_the_first_setting_is_the_winner_and_the_box_is_the_space() -> None:
    group = alone(budgets=("medium", "large"))
    (medium, large), _ = settled(group, lambda spec: row(None, "diverged"))
    assert (medium.trial, large.trial) == (0, 0)
    late = [rate(spec) for spec in large.tried[50:]]
    assert late == [group.setting(trial)["lr"] for trial in range(50, 75)]


def test_the_refined_box_holds_the_ten_best() -> None:
    contender = Contender("Adam", 1, {"lr": 1e-3, "eps": 1e-8}, ADAM | {"eps": 1e-8})
    group = alone(optimizers=(contender,), budgets=("small", "medium", "large"))

    def valued(spec: Spec) -> Row:
        return row(abs(math.log10(rate(spec)) + 2), "diverged" if rate(spec) < 0.01 else "finished")

    (small, medium, large), rows = settled(group, valued)
    assert [spec.id for spec in medium.tried[:25]] == [spec.id for spec in small.tried]
    assert [spec.id for spec in large.tried[:50]] == [spec.id for spec in medium.tried]
    survivors = sorted((one for one in medium.tried if rate(one) >= 0.01), key=lambda one: math.log10(rate(one)) + 2)
    for name in ADAM:
        values = [spec.hyperparameters[name] for spec in survivors[:10]]
        late = [spec.hyperparameters[name] for spec in large.tried[50:]]
        assert min(values) * (1 - 1e-9) <= min(late) < max(late) <= max(values) * (1 + 1e-9)
    assert {spec.hyperparameters["eps"] for spec in large.tried} == {1e-8}
    assert large.trial == large.tried.index(
        min(large.tried, key=lambda one: (rows[one.id].state != "finished", rate(one)))
    )


def test_fewer_survivors_than_the_box_holds() -> None:
    group = alone(budgets=("large",))
    first = [group.trial(trial)[0] for trial in range(50)]
    three = {spec.id for spec in first[7:10]}
    (large,), _ = settled(group, lambda spec: row(1.0, "finished" if spec.id in three else "diverged"))
    rates = [rate(spec) for spec in first[7:10]]
    assert all(min(rates) * 0.999 < rate(spec) < max(rates) * 1.001 for spec in large.tried[50:])
    assert large.trial == 7


def test_the_box_waits_for_all_of_the_medium_budget() -> None:
    group = alone(budgets=("large",))
    first = [group.trial(trial)[0] for trial in range(50)]
    (large,) = chosen(group, {spec.id: row(1.0) for spec in first[:-1]})
    assert (len(large.tried), large.unknown) == (50, 25 + 9)
    (large,) = chosen(group, {spec.id: row(1.0) for spec in first})
    assert (len(large.tried), large.unknown) == (75, 9)


def test_number_as_budget_and_grid() -> None:
    (five,), _ = settled(alone(budgets=("5",)), lambda spec: row(rate(spec)))
    assert len(five.tried) == 5
    sgd = replace(SGD, space={"lr": {"choice": [1.0, 0.1, 0.01]}})
    (large,), _ = settled(alone(optimizers=(sgd,), budgets=("large",), search="grid"), lambda spec: row(rate(spec)))
    assert [rate(spec) for spec in large.tried] == [1.0, 0.1, 0.01]
    assert large.trial == 2


def test_several_seeds_for_each_setting() -> None:
    group = alone(tuning_seeds=10, budgets=("5",))
    (five,), rows = settled(group, lambda spec: row(rate(spec) if spec.seed == 42 else 0.0))
    assert len(five.tried) == 50
    assert rate(five.reported[0]) == min(map(rate, five.tried))
    assert len(rows) == 50  # reruns are among them


def test_several_tuning_seeds_draw_anew() -> None:
    one, other = groups(plan(seed=(42, 7)))
    assert [spec.seed for spec in chosen(other, {})[0].reported] == list(range(7, 17))
    assert not {spec.id for spec in chosen(one, {})[1].tried} & {spec.id for spec in chosen(other, {})[1].tried}


def test_matrices_of_the_protocol() -> None:
    nag = replace(SGD, name="NAG")
    sgd, other = groups(plan(optimizers=(SGD, nag), protocol="crowded-valley", search="study", budgets=("medium",)))
    (medium,), _ = settled(sgd, lambda spec: row(-1.0 if spec.matrix == 3 else 1.0))
    assert [spec.matrix for spec in medium.tried] == [*range(25), *range(25)]
    assert (medium.trial, [spec.matrix for spec in medium.reported]) == (3, [3, *[0] * 9])
    assert {spec.matrix for spec in chosen(other, {})[0].tried} == {0}
