"""Which quantities are due, and what a budget is told."""

from __future__ import annotations

import random

import pytest
import torch

from cockpit.core.budget import Budget
from cockpit.core.schedule import linear
from cockpit.quantities import HessMaxEV, HessTrace, Loss, MeanGSNR
from cockpit.tracking.pace import Pace, tier_of

QUANTITIES = [Loss(), HessTrace(), HessMaxEV()]


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_quantities_outside_the_presets_are_as_dear_as_can_be() -> None:
    assert [tier_of(quantity) for quantity in (*QUANTITIES, MeanGSNR())] == [1, 2, 3, 3]


def test_a_regular_schedule_tells_how_long_to_rest() -> None:
    pace = Pace(linear(10), torch.device("cpu"))
    assert pace.due(0, QUANTITIES) == QUANTITIES
    assert pace.resting == 0, "the step after may have something to finish"
    assert pace.due(1, QUANTITIES) == []
    assert pace.resting == 8


def test_a_quantity_with_a_schedule_of_its_own_is_always_asked() -> None:
    own = Loss(track_schedule=lambda step: step == 5)
    pace = Pace(linear(10), None)
    assert [pace.due(step, [own, HessTrace()]) != [] for step in range(1, 7)] == [False] * 4 + [True, False]
    assert pace.resting == 0


def test_cheap_quantities_are_due_more_often_and_the_budget_is_kept() -> None:
    clock = Clock()
    budget = Budget(0.05, grace=0, clock=clock, tiers={1, 2, 3})
    pace, plain, cost, seen = (
        Pace(budget, torch.device("cpu")),
        0.01,
        {0: 0.0, 1: 0.01, 2: 0.05, 3: 0.2},
        dict[int, int](),
    )
    step = 0
    while step < 4000:
        due = pace.due(step, QUANTITIES)
        tier = max((tier_of(quantity) for quantity in due), default=0)
        seen[tier] = seen.get(tier, 0) + 1
        clock.now += plain + cost[tier]
        pace.spend(cost[tier])
        step += 1
        while pace.resting:  # as whoever counts steps does
            pace.resting -= 1
            pace.rested += 1
            clock.now += plain
            step += 1
    spent = sum(cost[tier] * times for tier, times in seen.items())
    assert spent <= 0.06 * step * plain
    assert seen[1] > seen[2] > seen[3] >= 3


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("plain", [3e-4, 6e-3])
def test_on_a_machine_that_others_use_it_goes_on_to_the_end(plain: float, seed: int) -> None:
    """Steps take up to four times as long for a while, and some are interrupted."""
    dice, clock = random.Random(seed), Clock()
    budget = Budget(0.05, grace=0, clock=clock, tiers={1})
    pace, load, step, trained, tracked = Pace(budget, torch.device("cpu")), 1.0, 0, 0.0, list[int]()

    def train() -> None:
        nonlocal load, trained, step
        load = dice.choice((1.0, 1.5, 2.0, 4.0)) if dice.random() < 0.05 else load
        seconds = plain * (load * dice.gauss(1, 0.1) + (4 * dice.expovariate(1) if dice.random() < 0.1 else 0.0))
        clock.now, trained, step = clock.now + seconds, trained + seconds, step + 1

    while step < 2000:
        if pace.due(step, QUANTITIES[:1]):
            tracked.append(step)
            clock.now += 2 * plain * load
            pace.spend(2 * plain * load)
        assert pace.resting >= 0, "less than none would never come to an end"
        train()
        while pace.resting:  # as whoever counts steps does
            pace.resting, pace.rested = pace.resting - 1, pace.rested + 1
            train()
    assert tracked[-1] > 1500
    assert budget.trained == pytest.approx(trained, rel=0.12)
    assert clock.now - trained <= 0.06 * trained
