from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR, ReduceLROnPlateau, StepLR

from cockpit.bench.rates import Rates, check, is_factory, label
from cockpit.core.errors import CockpitError


def optimizer(*rates: float) -> torch.optim.SGD:
    return torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates])


def halves(epoch: int) -> float:
    return 0.5**epoch


@pytest.mark.parametrize(
    ("given", "expected", "name"),
    [
        ("cosine", False, "cosine"),
        (halves, False, r"halves_\w{8}"),
        (lambda epoch: 1 if epoch < 3 else 0.1, False, r"lambda_\w{8}"),
        (StepLR, True, "StepLR"),
        (partial(StepLR, step_size=2), True, "StepLR_step_size_2"),
        (partial(torch.optim.lr_scheduler.MultiStepLR, milestones=[1, 3]), True, "MultiStepLR_milestones_1,3"),
        (lambda optimizer: StepLR(optimizer, 1), True, r"lambda_\w{8}"),
    ],
)
def test_what_is_given(given: Any, expected: bool, name: str) -> None:
    assert is_factory(given) is expected
    assert re.fullmatch(name, label(given, 2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda epoch: 0.5, lambda epoch: 0.1),
        (partial(pow, 0.5), partial(pow, 0.1)),
        (lambda optimizer: StepLR(optimizer, 1), lambda optimizer: StepLR(optimizer, 2)),
        (lambda optimizer: ReduceLROnPlateau(optimizer), lambda optimizer: ReduceLROnPlateau(optimizer, patience=3)),
        (partial(LambdaLR, lr_lambda=halves), partial(LambdaLR, lr_lambda=lambda epoch: 0.1)),
    ],
)
def test_functions_are_told_apart_by_what_they_give(one: Any, other: Any) -> None:
    assert label(one, 3) == label(one, 3) != label(other, 3)
    assert "0x" not in label(one, 3)


def test_a_scheduler_that_ends_too_soon_is_refused_before_training() -> None:
    short = partial(OneCycleLR, max_lr=0.1, total_steps=2)
    check(short, 1)
    with pytest.raises(CockpitError, match="schedule OneCycleLR fails after 3 epochs"):
        check(short, 5)


def test_a_factor_applies_to_the_base_rate_of_each_group() -> None:
    sgd = optimizer(0.1, 0.4)
    rates = Rates(halves, sgd, 3)
    for epoch, expected in enumerate(([0.1, 0.4], [0.05, 0.2], [0.025, 0.1])):
        rates.begin(epoch)
        assert [group["lr"] for group in sgd.param_groups] == pytest.approx(expected)
        rates.end({"train_loss": 1.0})


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [({"train_loss": 1.0, "valid_loss": 2.0}, 2.0), ({"train_loss": 1.0}, 1.0)],
)
def test_a_plateau_is_one_of_the_validation_loss(metrics: dict[str, float], expected: float) -> None:
    made: list[ReduceLROnPlateau] = []

    def factory(sgd: Any) -> ReduceLROnPlateau:
        made.append(ReduceLROnPlateau(sgd))
        return made[-1]

    Rates(factory, optimizer(0.1), 3).end(metrics)
    assert made[0].best == expected
