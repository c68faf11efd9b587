"""Names of schedules that are given as lists."""

from __future__ import annotations

import math

import pytest

from cockpit.results.schedules import named


def test_none_is_constant() -> None:
    assert named(None, None, 10) == named([], [], 10) == named([0, 5], [0.5, 1.0], 10) == "constant"


@pytest.mark.parametrize("epochs", [50, 100, 160])
def test_published_lists(epochs: int) -> None:
    every = list(range(epochs + 1))
    cosine = [0.5 * (1 + math.cos(math.pi * epoch / epochs)) for epoch in every]
    assert named(every, cosine, epochs) == "cosine"
    ramp = epochs // 10
    up = [epoch / ramp for epoch in range(1, ramp + 1)]
    flat = [1.0] * (epochs - 2 * ramp)
    down = [1 - step / (ramp + 1) for step in range(1, ramp + 1)]
    assert named(every, [0.0, *up, *flat, *down], epochs) == "ltr"  # the first epoch has the base rate whatever it says


def test_warm_restarts() -> None:
    starts = [0] * 10 + [10] * 20 + [30] * 20
    lengths = [10] * 10 + [20] * 20 + [40] * 20
    pairs = zip(range(50), starts, lengths, strict=True)
    assert named(range(50), [0.5 * (1 + math.cos(math.pi * (e - s) / n)) for e, s, n in pairs], 50) == "cosine_wr"


def test_steps_are_spelled_out() -> None:
    assert named([50, 80], [0.1, 0.01], 100) == "0.1@50,0.1@80"
    assert named([80, 50, 100], [0.05, 0.1, 3.0], 100) == "0.1@50,0.5@80"
    assert named([50, 80], [0.0, 0.5], 100) == "0@50,0.5@80"
