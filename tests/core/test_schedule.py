"""Schedules and the budget."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cockpit.core.errors import CockpitError
from cockpit.core.schedule import Budget, as_schedule, linear, logarithmic


@pytest.mark.parametrize("interval", [1, 2, 3])
@pytest.mark.parametrize("offset", [0, 1, 2, -1])
def test_linear_tracks_every_interval_from_the_offset(interval: int, offset: int) -> None:
    schedule = linear(interval, offset)
    expected = {offset + k * interval for k in range(200)}
    assert [step for step in range(100) if schedule(step)] == sorted(step for step in expected if 0 <= step < 100)


def test_logarithmic_is_dense_early_and_holds_its_ends() -> None:
    schedule = logarithmic(0, 3, steps=20)
    tracked = [step for step in range(2000) if schedule(step)]
    assert tracked[0] == 0
    assert tracked[-1] == 1000
    assert len(tracked) <= 21
    gaps = [b - a for a, b in pairwise(tracked)]
    assert gaps[0] < gaps[-1]
    assert not logarithmic(0, 1, init=False)(0)


def test_budget_keeps_the_share_after_the_grace() -> None:
    now = [0.0]
    budget = Budget(0.1, grace=1.0, clock=lambda: now[0])
    tracked = 0
    for step in range(2000):
        now[0] += 0.01  # a plain step
        if budget(step):
            tracked += 1
            now[0] += 0.1
            budget.spend(0.1)
    assert budget.spent - 1.0 <= 0.1 * now[0]
    assert tracked > 20
    assert budget.spent >= 0.8 * (1.0 + 0.1 * now[0])


@pytest.mark.parametrize("share", [0, -0.1, 1.5, "x", True, None, float("nan")])
def test_budget_outside_its_range_is_refused(share: object) -> None:
    with pytest.raises(CockpitError, match=r"\(0, 1\]"):
        Budget(share)  # type: ignore[arg-type]


@pytest.mark.parametrize("every", [0, -1, 1.5, "often", True])
def test_bad_intervals_are_refused(every: object) -> None:
    with pytest.raises(CockpitError, match="whole number"):
        as_schedule(every)
