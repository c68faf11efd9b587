"""Errors behind a guard: said now and then, never raised."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from cockpit.core.errors import Undefined
from cockpit.core.guard import LONGEST, Faults, entry


class Guarded:
    def __init__(self) -> None:
        self.faults: list[Exception] = []

    @entry
    def divide(self, a: float, *, by: float) -> float:
        """Divide."""
        return a / by

    @entry
    def leave(self) -> None:
        raise KeyboardInterrupt

    def fault(self, error: Exception) -> None:
        self.faults.append(error)


def test_an_entry_answers_or_gives_its_error_away() -> None:
    thing = Guarded()
    assert thing.divide(6, by=3) == 2
    assert thing.divide(6, by=0) is None
    assert [type(error) for error in thing.faults] == [ZeroDivisionError]
    assert thing.divide.__name__ == "divide"


def test_an_exit_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        Guarded().leave()


def test_the_same_words_are_said_less_and_less_often(caplog: Any) -> None:
    faults = Faults(logging.getLogger("cockpit"))
    with caplog.at_level(logging.WARNING, "cockpit"):
        for step in range(1000):
            faults.say(f"step {step}", ValueError("too large\nand more about it"))
        faults.say("step 7", Undefined("x" * 2 * LONGEST))
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == [
        "step 0 could not be measured: ValueError: too large",
        "step 9 could not be measured: ValueError: too large (for the 10th time)",
    ]
    assert len(said) == 5
    assert len(said[-1]) < LONGEST + 50
