"""What is said of the present says of how many steps, and of enough of them."""

from __future__ import annotations

import numpy as np
from tests.panels.made import of

from cockpit.core.source import Series
from cockpit.panels import panel
from cockpit.panels.recent import counted, recent


def test_at_least_twenty_tracked_steps() -> None:
    steps = np.array([*range(50), 1000])
    assert recent(Series(steps, steps * 1.0)).steps.tolist() == [*range(31, 50), 1000]
    many = Series(np.arange(1000), np.zeros(1000))
    assert len(recent(many)) == 100
    few = Series(np.arange(3), np.zeros(3))
    assert len(recent(few)) == 3
    assert counted(few, few) == "all 3 tracked"
    assert counted(recent(many), many) == "last 100 tracked"


def test_alpha_says_of_how_many_steps_it_speaks() -> None:
    sparse = {**dict.fromkeys(range(40), 0.3), 4000: 0.9}
    shown = panel([of("Alpha", sparse, learning_rate={0: 0.1})], "alpha")
    assert shown.note.startswith("last 20 tracked: median 0.3")
    labels = {one["name"]: one.get("value") for one in shown.spec["params"]}
    assert labels["mean_all"] == " 41, mean 0.315"
    assert labels["mean_last"] == " 20, mean 0.33"


def test_nothing_is_suggested_from_a_handful_of_steps() -> None:
    shown = panel([of("Alpha", {0: 0.9, 5: 0.9}, learning_rate={0: 0.1})], "alpha")
    assert shown.note.startswith("all 2 tracked")
    assert "learning rate" not in shown.note
    tests = panel([of("NormTest", {0: 3.0}, batch_size={0: 32.0})], "tests")
    assert "needs" not in tests.note
