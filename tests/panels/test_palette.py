"""Colours of runs."""

from __future__ import annotations

from cockpit.panels.palette import apart, in_order
from cockpit.panels.theme import RUNS


def test_in_the_order_of_starting_and_kept() -> None:
    known = in_order(["a", "b"])
    assert known == {"a": RUNS[0], "b": RUNS[1]}
    assert in_order(["c", "b"], known)["c"] == RUNS[2]
    assert in_order(map(str, range(20)))["14"] == RUNS[0], "they begin again"


def test_runs_that_are_shown_together_are_told_apart() -> None:
    assert apart([RUNS[0], RUNS[1]]) == (RUNS[0], RUNS[1])
    assert apart([RUNS[0], RUNS[0], RUNS[1]]) == (RUNS[0], RUNS[2], RUNS[1])
    assert len(set(apart([RUNS[0]] * 20))) == len(RUNS)
