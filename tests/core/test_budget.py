"""The budget: simulated trainings with a clock of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from tests.core.training import COSTS, Training

from cockpit.core.budget import BEFORE, HORIZON, LATEST, Budget
from cockpit.core.errors import CockpitError

STEPS = 2000
CHEAP = {1: 0.5}
ECONOMY = {1: 2.0}
LOGISTIC = {1: 14.0, 2: 33.0, 3: 60.0}  # of a step of 0.3 ms
NEAR = {1: 1.0, 2: 1.2, 3: 20.0}
FAST_LATER: Callable[[int], float] = lambda step: 0.5 if step > 1000 else 1.0  # noqa: E731
SLOW_LATER: Callable[[int], float] = lambda step: 2.0 if step > 1000 else 1.0  # noqa: E731
SLOWER: Callable[[int], float] = lambda step: 1 + step / 1000  # noqa: E731


def trained(share: float = 0.05, grace: float = 0.0, steps: int = STEPS, **options: Any) -> Training:
    training = Training(**options)
    return training.run(Budget(share, grace, tiers=training.costs), steps)


# ---- the share is kept


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("plain", [3e-4, 1e-2, 1.0])
@pytest.mark.parametrize("costs", [CHEAP, ECONOMY, COSTS, NEAR, LOGISTIC])
@pytest.mark.parametrize(
    "life",
    [
        {},
        {"noise": 0.3, "stalls": 0.02},
        {"drift": FAST_LATER},
        {"drift": SLOW_LATER, "pause": 30.0},
        {"drift": SLOWER, "late": 7},
        {"slow": 3, "late": 3, "pause": 30.0},
        {"cold": 0.012, "standing": 3e-6},
    ],
)
def test_the_share_is_kept(share: float, plain: float, costs: Mapping[int, float], life: dict[str, Any]) -> None:
    """Over 2,000 steps without grace, whatever happens: at most one percent more than was allowed."""
    found = trained(share, plain=plain, costs=costs, **life)
    assert found.share() <= share + 0.01


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("costs", [ECONOMY, COSTS, LOGISTIC, {3: 50.0}])
@pytest.mark.parametrize("plain", [3e-4, 1e-2])
def test_at_every_step_the_share_is_exceeded_by_one_tracked_step_at_most(
    costs: Mapping[int, float], plain: float, seed: int
) -> None:
    """And before the horizon by what the steps up to it will earn."""
    found = trained(costs=costs, plain=plain, noise=0.2, cold=0.02, seed=seed, steps=4000)
    early = 0.05 * HORIZON * plain * 1.1
    for step in range(4000):
        allowed = 0.05 * found.trained[step]
        if step < HORIZON:
            allowed = max(allowed, early)
        assert found.overhead[step] <= allowed + found.dearest(), step


def test_the_first_step_may_cost_tens_of_milliseconds() -> None:
    """A logistic regression of 0.3 ms a step: its first tracked step costs more than a hundred plain ones."""
    for cold in (0.005, 0.01, 0.02, 0.03):
        for costs in (ECONOMY, COSTS):
            assert trained(plain=3e-4, costs=costs, cold=cold, standing=2e-6).share() <= 0.06


def test_the_share_is_used() -> None:
    for share in (0.01, 0.05, 0.2):
        found = trained(share, costs=ECONOMY, steps=5000)
        assert found.share() > 0.85 * share
    assert trained(costs=COSTS, steps=20_000).share() > 0.85 * 0.05


def test_what_it_reports_is_what_was_lost() -> None:
    training, budget = Training(costs=COSTS, pause=30.0), Budget(0.05, 0.0)
    training.run(budget, STEPS)
    found = budget.report()
    assert found["spent"] == pytest.approx(training.overhead[-1], rel=0.1)
    assert found["trained"] == pytest.approx(training.trained[-1], rel=0.05)
    assert found["used"] == pytest.approx(training.share(), rel=0.1)
    assert [tier["tracked"] for tier in found["tiers"]] == [len(training.times(tier)) for tier in COSTS]
    assert (found["share"], found["grace"], found["free"]) == (0.05, 0.0, 0.0)


def test_what_we_take_from_plain_steps_is_paid_from_the_share() -> None:
    idle, standing = trained(costs=ECONOMY), trained(costs=ECONOMY, standing=0.04 * 0.01)
    assert standing.share() <= 0.06
    assert len(standing.tracked) < len(idle.tracked) / 2


def test_a_training_of_another_shape_is_known_by_its_length() -> None:
    """A short run that says how long it is keeps its share, too."""
    for steps in (100, 300, 600):
        training = Training(costs=ECONOMY)
        training.run(Budget(0.05, 0.0, tiers=(1,), steps=steps), steps)
        assert training.overhead[-1] <= 0.05 * training.trained[-1] + training.dearest()


# ---- what it buys


def test_early_steps_are_dense_and_later_ones_steady() -> None:
    found = trained(costs={1: 1.0}, steps=8000, noise=0.02).times(1)
    assert found[0] == BEFORE
    for power in range(3, 13):
        assert any(2**power <= step < 2 ** (power + 1) for step in found), f"nothing between 2^{power} and twice that"
    gaps = [later - step for step, later in pairwise(found) if step > 2 * HORIZON]
    assert max(gaps) < 3 * min(gaps)
    assert found[1] - found[0] < sorted(gaps)[len(gaps) // 2]


@pytest.mark.parametrize(("costs", "times"), [({1: 2.0, 2: 10.0, 3: 50.0}, 4), ({1: 0.5, 2: 2.5, 3: 12.0}, 15)])
def test_dear_tiers_are_tracked_again_and_again(costs: Mapping[int, float], times: int) -> None:
    found = trained(costs=costs, steps=10_000)
    assert len(found.times(3)) >= times
    assert len(found.times(1)) > 2 * len(found.times(2)) > 2 * len(found.times(3))
    gaps = [later - step for step, later in pairwise(found.times(3)[1:])]  # the first one was guessed
    assert max(gaps) < 3 * min(gaps)


def test_a_tier_that_adds_little_comes_with_the_cheaper_ones() -> None:
    found = trained(costs={1: 2.0, 2: 2.1}, steps=6000)
    assert len(found.times(2)) > 0.7 * len(found.times(1))


def test_a_tier_that_costs_nothing_leaves_its_share_to_the_others() -> None:
    alone = trained(costs={3: 10.0}, steps=6000)
    both = trained(costs={1: 0.001, 3: 10.0}, steps=6000, after=0.0, noise=0.01)
    assert len(both.times(1)) > 4000
    assert len(both.times(3)) > 0.7 * len(alone.times(3))


def test_there_are_no_bursts() -> None:
    """After a long time in which nothing could be tracked, nothing is made up for."""
    for costs in (ECONOMY, COSTS):
        found = trained(costs=costs, steps=6000, noise=0.02, pause=100.0)
        for tier in costs:
            gaps = [later - step for step, later in pairwise(found.times(tier)) if step > 2 * HORIZON]
            assert all(gap > 10 for gap in gaps)


def test_of_a_very_long_run_not_every_step_is_tracked() -> None:
    budget = Budget(1.0, 0.0, tiers=(1,))
    tracked = 0
    for step in range(60_000):
        tier = budget.due(step)
        tracked += tier
        budget.book(step, 0.0101 if tier else 0.01, tier)
    assert 25_000 < tracked < 35_000


# ---- grace


def test_within_the_grace_every_step_is_tracked() -> None:
    found = trained(1e-6, grace=1000.0, steps=300)
    assert found.tracked == dict.fromkeys(range(300), 3)


def test_the_grace_is_seconds_of_tracking() -> None:
    """Plain steps are compared with as soon as the whole time is more than the grace; then it goes on."""
    training, budget = Training(costs=ECONOMY), Budget(0.05, 10.0, tiers=(1,))
    training.run(budget, 3000)
    first = next(step for step in range(3000) if step not in training.tracked)
    assert sum(0.01 * (1 + 2 + 0.6) for _ in range(first)) == pytest.approx(10.0, rel=0.1)
    dense = [step for step in training.tracked if training.overhead[step] < 9.5]
    assert len(dense) > 0.95 * dense[-1]
    charged = training.overhead[-1] - 10.0
    assert charged <= 0.06 * training.trained[-1]
    assert charged > 0.02 * (training.trained[-1] - training.trained[dense[-1]])
    assert budget.report()["free"] == pytest.approx(10.0, rel=0.02)


@pytest.mark.parametrize("late", [0, 5, 40])
def test_after_the_grace_the_share_is_kept(late: int) -> None:
    found = trained(grace=2.0, costs=COSTS, steps=4000, late=late, cold=0.05)
    assert found.overhead[-1] - 2.0 <= 0.06 * found.trained[-1] + (late + 1) * 0.4
    assert len(found.times(3)) > 5


def test_costs_are_known_after_the_grace() -> None:
    """What a cheap tier costs by itself is first guessed from the dear one, then measured."""
    found = trained(grace=2.0, costs=COSTS, steps=6000)
    cheap = [step for step, tier in found.tracked.items() if tier == 1]
    assert cheap
    assert cheap[0] < found.times(1)[0] + 500


# ---- what may happen


def test_a_training_that_was_slow_at_first_does_not_earn_more() -> None:
    for slow in (1, 2, 3, 4):
        found = trained(costs=ECONOMY, slow=slow)
        assert found.overhead[-1] <= 0.06 * STEPS * 0.01


def test_steps_that_are_tracked_by_a_schedule_of_their_own_are_paid_too() -> None:
    budget, tracked = Budget(0.05, 0.0, tiers=(1,)), 0
    for step in range(4000):
        tier = budget.due(step)
        tracked += tier
        own = step % 50 == 0
        budget.book(step, 0.01 + (0.02 if tier else 0.0) + (0.02 if own else 0.0), 1 if tier or own else 0)
    assert budget.report()["used"] <= 0.06
    assert tracked < 60


def test_where_every_step_is_tracked_anyway_it_goes_on() -> None:
    """There is no plain step to compare with, so the tracker's own word counts."""
    budget, tracked = Budget(0.05, 0.0, tiers=(1, 2)), []
    for step in range(6000):
        tier = budget.due(step)
        if tier > 1:
            tracked.append(step)
        cost = 0.1 if tier > 1 else 0.0001
        budget.book(step, 0.01 + cost, max(tier, 1), own=cost)
    assert 5 < len(tracked) <= 0.06 * 6000 * 0.01 / 0.1


def test_a_step_that_is_never_booked_is_given_up() -> None:
    budget = Budget(0.05, 0.0, tiers=(1,))
    tracked = 0
    for step in range(6 * LATEST):
        tier = budget.due(step)
        tracked += tier
        if not tier:
            budget.book(step, 0.01)
    assert tracked > 2
    assert len(budget._pledged) < tracked


def test_a_step_that_was_left_is_paid_back() -> None:
    budget = Budget(0.05, 0.0, tiers=(1,))
    for step in range(20):
        if budget.due(step):
            before = dict(budget._accounts)
            budget.forget(step)
            assert budget._accounts[1] > before[1]
            return
        budget.book(step, 1.0)
    raise AssertionError("nothing was due")


def test_tiers_may_change() -> None:
    budget = Budget(1.0, 100.0)
    assert budget.due(0) == 3
    budget.want([1])
    assert budget.due(1) == 1
    budget.want([])
    assert budget.due(2) == 0


def test_used_as_a_schedule_it_takes_the_time_by_itself() -> None:
    now = [0.0]
    budget = Budget(0.1, 0.0, clock=lambda: now[0], tiers=(1,))
    tracked = 0
    for step in range(4000):
        if budget(step):
            tracked += 1
            now[0] += 0.1
            budget.spend(0.1)
        now[0] += 0.01
    found = budget.report()
    assert found["used"] == pytest.approx(0.1 * tracked / (4000 * 0.01), rel=0.02)
    assert 0.08 < found["used"] <= 0.11


def test_to_look_takes_little_of_the_time() -> None:
    """A look takes 30 us: of any step, short or long, that must be less than half a percent."""
    for plain in (1e-4, 3e-4, 6e-3, 0.1):
        budget = Budget(1e-9, 0.0, tiers=(1,))
        for step in range(20):
            assert budget.due(step) == 0
            budget.book(step, plain)
        assert 0.005 * (1 + budget.idle()) * plain >= 3e-5


def test_what_is_due_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that are booked together end where the next one can be due."""
    monkeypatch.setattr("cockpit.core.meter.PASSED", 0.0)
    found = {}
    for together in (True, False):
        budget, tracked, step = Budget(0.05, 0.0, tiers=(1,)), list[int](), 0
        while step < 3000:
            if tier := budget.due(step):
                tracked.append(step)
            rested = 0 if tier or not together else budget.idle()
            budget.book(step, (1 + rested) * 3e-4 + (6e-3 if tier else 0.0), tier, count=1 + rested)
            step += 1 + rested
        found[together] = tracked
    assert len(found[True]) > 3
    assert found[True] == pytest.approx(found[False], abs=1)


def test_where_tracked_steps_are_faster_than_plain_ones_it_goes_on() -> None:
    """Plain steps are then looked at, though a tracked one could be paid: that is no reason to rest, nor to end."""
    budget, tracked, step, last = Budget(0.05, 0.0, tiers=(1,)), 0, 0, -9
    while step < 1000:
        tier = budget.due(step)
        rested = 0 if tier else budget.idle()
        assert rested >= 0
        tracked, last = (tracked + 1, step) if tier else (tracked, last)
        fast = step - last < 3  # those after it, too
        budget.book(step, (0.0095 if fast else 0.01) * (1 + rested), tier, count=1 + rested)
        step += 1 + rested
    assert tracked > 100


def test_a_no_is_cheap() -> None:
    """It must not cost what it saves: nothing is computed but a comparison."""
    budget = Budget(0.05, 0.0)
    for step in range(100):
        budget.due(step)
        budget.book(step, 3e-4)
    calls: list[str] = []
    budget._affordably = lambda step: calls.append("computed") or 0  # type: ignore[method-assign, func-returns-value]
    for step in range(100, 300):
        assert budget.due(step) == 0
    assert calls == []


def test_what_arrives_in_the_step_after_is_paid() -> None:
    found = trained(costs=ECONOMY, after=3.0)
    assert 0.03 < found.share() <= 0.06


@pytest.mark.parametrize("share", [0, -0.1, 1.5, "x", True, None, float("nan")])
def test_a_share_outside_its_range_is_refused(share: object) -> None:
    with pytest.raises(CockpitError, match=r"\(0, 1\]"):
        Budget(share)  # type: ignore[arg-type]


@pytest.mark.parametrize("grace", [-1, "x", True, None, float("nan")])
def test_a_grace_that_is_none_is_refused(grace: object) -> None:
    with pytest.raises(CockpitError, match="0 or more"):
        Budget(0.05, grace)  # type: ignore[arg-type]
