"""The study's figures beside a sweep's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.results.sweeps.plans import PLAN, QUADRATIC, SGD, plan
from tests.results.sweeps.test_comparisons import cell

from cockpit.results.published import DRIFTING, IMPOSSIBLE
from cockpit.results.sweeps.plan import Contender, SweepPlan
from cockpit.results.sweeps.printed import beside
from cockpit.results.sweeps.runs import groups

FULL = replace(QUADRATIC, epochs=100)
MOMENTUM = Contender("Momentum", 1, {"lr": 0.01}, {"lr": {"log": [1e-4, 1.0]}}, studied=True)


def figure(
    optimizer: Contender = SGD,
    budget: str = "small",
    schedule: str = "constant",
    wanted: SweepPlan = PLAN,
    mean: float | None = 90.0,
    std: float | None = 0.5,
    **changes: Any,
) -> dict[str, Any] | None:
    used = replace(wanted, problems=(changes.pop("task", FULL),), optimizers=(optimizer,), schedules=(schedule,))
    held = cell(optimizer.name, [mean], budget=budget, schedule=schedule, problem="quadratic_deep", mean=mean, std=std)
    return beside(held, groups(used)[0])


@pytest.mark.parametrize(
    ("budget", "schedule", "table"),
    [
        *(
            ("small", "constant", "B.3"),
            ("large", "constant", "B.2"),
            ("medium", "cosine", "B.4"),
            ("large", "ltr", "B.5"),
        ),
        *(
            ("oneshot", "constant", None),
            ("medium", "constant", None),
            ("small", "cosine", None),
            ("medium", "ltr", None),
        ),
        *(("large", "trapezoidal", None), ("25", "constant", None)),
    ],
)
def test_equal_budget_and_schedule_only(budget: str, schedule: str, table: str | None) -> None:
    found = figure(budget=budget, schedule=schedule)
    assert (found and found["table"]) == table


def test_the_protocols_medium_has_the_draws_of_the_stored_large_one() -> None:
    protocol = plan(protocol="crowded-valley")
    for schedule, table in (("constant", "B.2"), ("ltr", "B.5")):
        found = figure(budget="medium", schedule=schedule, wanted=protocol)
        assert found is not None
        assert (found["table"], found["budget"]) == (table, "large")


def test_what_has_no_figure() -> None:
    assert figure(task=QUADRATIC) is None  # not as long
    assert figure(replace(SGD, studied=False)) is None  # another space or rule
    assert figure(replace(SGD, name="AdamW")) is None
    assert figure(task=replace(FULL, name="digits")) is not None  # the cell says which problem


def test_met_to_the_last_printed_digit() -> None:
    found = figure(MOMENTUM, mean=87.034, std=0.0151)
    assert found is not None
    assert (found["table"], found["mean"], found["std"], found["met"]) == ("B.3", 87.03, 0.02, True)
    assert found["caveat"] is None
    for mean, std in ((87.04, 0.0151), (87.034, 0.0261), (None, None)):
        other = figure(MOMENTUM, mean=mean, std=std)
        assert other is not None
        assert not other["met"]


def test_reasons() -> None:
    protocol = plan(protocol="crowded-valley")
    adam, belief = (replace(SGD, name=name) for name in ("Adam", "AdaBelief"))
    for optimizer, budget, schedule, reason in (
        (adam, "small", "constant", "it is met with setting 11 on matrix 10"),
        (adam, "medium", "constant", "it is met with setting 43 on matrix 18"),
        (belief, "medium", "cosine", "it was tuned with something else"),
        (MOMENTUM, "large", "ltr", "its winner may be one of the 25 refined settings"),
    ):
        found = figure(optimizer, budget, schedule, protocol)
        assert found is not None
        assert found["why"].startswith(reason)
    found = figure(MOMENTUM, wanted=protocol, mean=87.034, std=0.0151)
    assert found is not None
    assert found["why"] is None
    found = figure(adam)
    assert found is not None
    assert found["why"] is None  # not the study's protocol: nothing has to be met
    assert found["caveat"] in (DRIFTING, IMPOSSIBLE)


def test_the_training_loss_of_table_b6() -> None:
    found = figure(MOMENTUM, budget="large")
    assert found is not None
    assert found["train"] == {"mean": 84.77, "std": 0.30}
    other = figure(MOMENTUM)
    assert other is not None
    assert other["train"] is None
