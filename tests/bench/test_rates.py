from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from cockpit.bench.rates import Rates, is_factory, label


def optimizer(*rates: float) -> torch.optim.SGD:
    return torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates])


def halves(epoch: int) -> float:
    return 0.5**epoch


@pytest.mark.parametrize(
    ("given", "expected", "name"),
    [
        ("cosine", False, "cosine"),
        (halves, False, "halves"),
        (lambda epoch: 1 if epoch < 3 else 0.1, False, "<lambda>"),
        (StepLR, True, "StepLR"),
        (partial(StepLR, step_size=2), True, "StepLR_step_size_2"),
        (partial(torch.optim.lr_scheduler.MultiStepLR, milestones=[1, 3]), True, "MultiStepLR_milestones_1,3"),
        (lambda optimizer: StepLR(optimizer, 1), True, "<lambda>"),
    ],
)
def test_what_is_given(given: Any, expected: bool, name: str) -> None:
    assert is_factory(given) is expected
    assert label(given) == name


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
