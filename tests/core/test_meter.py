"""What watching costs."""

from __future__ import annotations

import pytest

from cockpit.core.meter import AFTER, COLD, GLANCE, PASSED, TOGETHER, UNSEEN, WAITING, Meter, name

PLAIN = 0.01


def fed(*plain: float) -> Meter:
    """A meter that has seen plain steps, at the steps -n ... -1."""
    meter = Meter()
    for place, seconds in enumerate(plain or (PLAIN,) * 40):
        meter.book(place - len(plain or (PLAIN,) * 40), seconds)
    return meter


def tracked(meter: Meter, step: int, cost: float, tier: int = 1, after: float = 0.0, **more: float) -> None:
    """Book a tracked step, and those after it that it slows."""
    meter.book(step, PLAIN + cost, tier, **more)
    for later in range(AFTER):
        meter.book(step + 1 + later, PLAIN + after)


def test_a_tracked_step_costs_what_it_takes_more_than_a_plain_one() -> None:
    meter = fed()
    tracked(meter, 0, 0.05)
    assert meter.spent == pytest.approx(0.05)
    assert meter.trained == pytest.approx((41 + AFTER) * PLAIN)
    assert meter.report()["used"] == pytest.approx(0.05 / (41 + AFTER) / PLAIN)


def test_the_steps_after_a_tracked_one_are_booked_too() -> None:
    meter = fed()
    tracked(meter, 0, 0.05, after=0.02)
    assert meter.spent == pytest.approx(0.05 + AFTER * 0.02)
    tracked(meter, 10, 0.05, after=0.02)
    tracked(meter, 20, 0.05, after=0.02)
    assert meter.expected(1) == pytest.approx(0.05 + AFTER * 0.02)
    assert meter.plain == pytest.approx(PLAIN), "they are not plain"


def test_what_we_take_between_two_steps_is_ours() -> None:
    meter = Meter()
    for step in range(10):
        meter.began(step * 1e-3)
        meter.ended(step, 0, step * 1e-3 + 0.9e-3)
    assert meter.standing == pytest.approx(9 * UNSEEN * 1e-4)
    assert meter.plain == pytest.approx(0.9e-3)
    assert meter.report()["used"] == pytest.approx(UNSEEN * 0.9 / 9)


def test_another_program_that_comes_between_two_steps_is_not_ours() -> None:
    meter = Meter()
    for step in range(10):
        meter.began(step * 1.0)
        meter.ended(step, 0, step * 1.0 + 0.9)
    assert meter.standing == pytest.approx(9 * UNSEEN * GLANCE)


def test_steps_that_are_passed_over_cost_the_call_of_a_hook() -> None:
    meter = fed()
    meter.book(0, 100 * PLAIN, count=100)
    assert meter.standing == pytest.approx(99 * PASSED)
    assert meter.plain == pytest.approx(PLAIN)


def test_stamps_come_from_the_clock() -> None:
    now = iter([1.0, 3.0, 3.0001, 5.0001])
    meter = Meter(lambda: next(now))
    for step in range(2):
        meter.began()
        meter.ended(step)
    assert (meter.steps, meter.plain) == (2, pytest.approx(2.0))
    assert meter.standing == pytest.approx(UNSEEN * 1e-4)


def test_a_step_that_was_never_ended_is_not_booked() -> None:
    meter = Meter()
    meter.began(0.0)
    meter.began(100.0)
    meter.ended(0, 0, 101.0)
    assert (meter.steps, meter.plain, meter.standing) == (1, 1.0, 0.0)


# ---- what is typical


def test_steps_that_compile_and_tune_are_not_typical() -> None:
    meter = fed(30.0, 5.0, 1.0, *[PLAIN] * 5)
    assert meter.plain == PLAIN
    assert 4 * PLAIN < meter.trained < 8.01 * PLAIN, "nor do they earn anything"


def test_the_first_plain_steps_that_were_not_typical_are_found_out() -> None:
    meter = fed(0.5, 0.5, 0.5)
    meter.book(0, PLAIN + 0.05, 1)  # faster than any plain step: those were something else
    assert meter.spent == 0
    for step in range(1, 1 + AFTER + 3):
        meter.book(step, PLAIN)
    assert meter.plain == PLAIN
    assert meter.spent == pytest.approx(0.05)


@pytest.mark.parametrize("factor", [0.3, 0.5, 2.0, 5.0])
def test_it_follows_when_training_changes(factor: float) -> None:
    meter = fed()
    for step in range(32):
        meter.book(step, factor * PLAIN)
    assert meter.plain == pytest.approx(factor * PLAIN, rel=0.01)


def test_a_faster_training_is_noticed_at_once() -> None:
    meter = fed()
    meter.book(0, PLAIN / 2)
    assert meter.plain == PLAIN, "one step alone may be a short batch"
    meter.book(1, PLAIN / 2)
    assert meter.plain == PLAIN / 2


def test_from_many_steps_at_once_it_learns_at_once() -> None:
    """The first steps were five times as fast as all others are: that is no pause."""
    meter = fed(*[PLAIN] * 3, *[5 * PLAIN] * 6)
    before = meter.trained
    meter.book(0, 100 * 5 * PLAIN, count=100)
    assert meter.trained - before == pytest.approx(500 * PLAIN)


def test_many_steps_at_once_after_which_training_is_found_faster_count_all() -> None:
    meter = fed()
    meter.book(0, PLAIN / 2)
    before = meter.trained
    meter.book(1, 100 * PLAIN / 2, count=100)
    assert meter.plain == PLAIN / 2
    assert meter.trained - before == pytest.approx(50 * PLAIN)


def test_where_there_is_no_time_to_rest_nothing_is_passed_over() -> None:
    meter = fed()
    assert meter.rest(-100.0) == 0
    assert meter.rest(100.0) == int(TOGETHER / PLAIN)


def test_a_pause_is_neither_training_nor_cost() -> None:
    meter = fed()
    before = meter.trained
    meter.book(0, 3600.0)
    assert meter.trained == pytest.approx(before + PLAIN)
    assert meter.spent == 0
    assert meter.plain == PLAIN


def test_pauses_among_steps_that_are_booked_together_stay_pauses() -> None:
    """Every 500 steps an evaluation: of the bookings one in eight, of the steps few."""
    meter = fed(*[3e-4] * 40)
    before = meter.trained
    for number in range(400):
        meter.book(66 * number, 66 * 3e-4 + (1.0 if number % 8 == 0 else 0.0), count=66)
    assert meter.trained - before == pytest.approx(400 * 66 * 3e-4)


def test_stalls_that_are_regular_are_training() -> None:
    meter = fed(*([PLAIN] * 7 + [10 * PLAIN]) * 12)
    before = meter.trained
    meter.book(0, 10 * PLAIN)
    assert meter.trained == pytest.approx(before + 10 * PLAIN)
    assert meter.plain == pytest.approx(PLAIN)


# ---- what a tracked step costs


def test_a_pause_before_the_forward_pass_is_not_ours() -> None:
    meter = fed()
    tracked(meter, 0, 30.0 + 0.05, idle=30.0 + PLAIN)
    assert meter.spent == pytest.approx(0.05)


def test_a_pause_anywhere_is_found_by_what_others_cost() -> None:
    meter = fed()
    for step in range(0, 50, 10):
        tracked(meter, step, 0.05)
    tracked(meter, 50, 30.0)
    assert meter.spent < 5 * 0.05 + 0.3
    assert meter.expected(1) == pytest.approx(0.05)


def test_a_pause_in_the_first_tracked_step_is_found_by_our_own_part() -> None:
    meter = fed()
    tracked(meter, 0, 300.0, own=0.04)
    assert meter.spent < 20 * 0.04 + COLD + 0.1


def test_costs_that_rise_for_good_are_believed() -> None:
    meter = fed()
    for step in range(0, 90, 10):
        tracked(meter, step, 0.01)
    for step in range(100, 200, 10):
        tracked(meter, step, 1.0)
    assert meter.expected(1) == pytest.approx(1.0)
    assert meter.spent == pytest.approx(0.09 + 10.0, rel=0.6)


def test_the_cold_first_step_is_charged_and_not_expected_again() -> None:
    meter = fed()
    tracked(meter, 0, 0.06)
    assert meter.spent == pytest.approx(0.06)
    assert meter.expected(1) == pytest.approx(0.02)
    for step in range(10, 40, 10):
        tracked(meter, step, 0.003)
        assert meter.expected(1) == pytest.approx(0.003)
    assert meter.report()["tiers"][0]["first"] == pytest.approx(0.06)


def test_a_first_step_that_is_dear_by_nature_is_expected_again() -> None:
    meter = fed()
    tracked(meter, 0, 0.5, tier=3)
    assert meter.expected(3) == pytest.approx(0.5 - COLD)


def test_slower_training_makes_slower_tracking() -> None:
    meter = fed()
    for step in range(0, 50, 10):
        tracked(meter, step, 0.05)
    for step in range(50, 90):
        meter.book(step, 3 * PLAIN)
    assert meter.expected(1) == pytest.approx(0.15)


def test_chance_does_not_add_up() -> None:
    """Where tracking costs nothing, half of its steps are faster than plain ones."""
    meter = fed(*[0.9 * PLAIN, 1.1 * PLAIN] * 20)
    for step in range(0, 400, 10):
        tracked(meter, step, 0.1 * PLAIN if step % 20 else -0.1 * PLAIN)
    assert meter.expected(1) == pytest.approx(0.0, abs=0.11 * PLAIN)
    assert 0 <= meter.spent < 20 * 0.11 * PLAIN, "what is faster pays nothing back"


# ---- before any plain step


def test_without_a_plain_step_the_tracker_is_believed() -> None:
    meter = Meter()
    for step in range(10):
        meter.book(step, 1.0, 1, own=0.25)
    found = meter.report()
    assert found["estimated"]
    assert (found["spent"], found["trained"]) == (2.5, 7.5)
    assert found["tiers"][0]["mean"] == 0.25


def test_the_estimate_is_corrected_when_plain_steps_are_known() -> None:
    meter = Meter()
    for step in range(10):
        meter.book(step, 1.0, 1, own=0.25)
    for step in range(10, 13 + AFTER):
        meter.book(step, 0.6)
    found = meter.report()
    assert not found["estimated"]
    assert found["spent"] == pytest.approx(4.0)
    assert found["trained"] == pytest.approx((13 + AFTER) * 0.6)


def test_the_data_loader_s_start_is_not_booked_on_the_first_step() -> None:
    meter = Meter()
    meter.book(0, 15.0, 1, own=0.2)
    for step in range(1, 10):
        meter.book(step, 1.0, 1, own=0.2)
    for step in range(10, 13 + AFTER):
        meter.book(step, 0.6)
    assert meter.spent < 10 * 0.4 + 6.5


def test_a_run_without_plain_steps_takes_no_more_memory() -> None:
    meter = Meter()
    for step in range(2 * WAITING):
        meter.book(step, 1.0, 1, own=0.25)
    assert len(meter._waiting) == WAITING
    assert meter.report()["spent"] == 0.5 * WAITING


# ---- what it says


def test_times_may_come_late_and_out_of_order() -> None:
    late = fed()
    for step, seconds, tier in ((0, PLAIN + 0.05, 1), (2, PLAIN, 0), (1, PLAIN + 0.01, 0), (3, PLAIN, 0)):
        late.book(step, seconds, tier)
    assert late.spent == pytest.approx(0.06)


def test_a_dear_tier_includes_the_cheaper_ones() -> None:
    meter = fed()
    for step, tier in ((0, 1), (10, 3), (20, 1), (30, 1), (40, 3)):
        tracked(meter, step, 0.01 * tier, tier)
    cheap, dear = meter.report()["tiers"]
    assert (cheap["name"], cheap["tracked"], cheap["alone"], cheap["interval"]) == ("economy", 5, 3, 10)
    assert (dear["name"], dear["tracked"], dear["alone"], dear["interval"]) == ("full", 2, 2, 30)
    assert cheap["mean"] == pytest.approx(0.01)
    assert dear["mean"] == pytest.approx(0.03)


def test_nothing_is_known_yet() -> None:
    found = Meter().report()
    assert (found["used"], found["plain"], found["tiers"], found["estimated"]) == (None, None, [], False)


def test_tiers_have_the_names_of_the_presets() -> None:
    assert [name(tier) for tier in (1, 2, 3, 7)] == ["economy", "business", "full", "tier 7"]
