"""Schedules."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cockpit.core.errors import CockpitError
from cockpit.core.schedule import as_schedule, linear, logarithmic


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


@pytest.mark.parametrize("every", [0, -1, 1.5, "often", True])
def test_bad_intervals_are_refused(every: object) -> None:
    with pytest.raises(CockpitError, match="whole number"):
        as_schedule(every)
