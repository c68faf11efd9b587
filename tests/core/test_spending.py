"""One number for the cost of watching, with its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.core.source import Series
from cockpit.core.spending import overhead, spending


def run(budget: dict[str, Any] | None = None, **numbers: list[float]) -> Recorded:
    made = [Record(step, name, Kind.SCALAR, v) for name, values in numbers.items() for step, v in enumerate(values)]
    return Recorded(made, "run", {"cost": {"budget": budget}} if budget else {})


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"share": 0.05, "used": 0.04, "free": 10.0, "grace": 10.0}, "4.0% of 5%, after 10 s of free start"),
        ({"share": 0.05, "used": 0.04}, "4.0% of 5%"),
        ({"share": 0.05, "used": 0.0, "free": 3.25, "grace": 10.0}, "0.0% of 5%, 3.2 s of 10 s of free start used"),
        ({"share": 0.05, "used": None, "free": 3.0, "grace": 10.0}, "3 s of 10 s of free start used"),
        ({"spent": 3.0, "trained": 100.0}, "3.0%"),
        ({"spent": 3000.0, "trained": 100.0}, "30 times"),
    ],
)
def test_the_number_and_its_reason(budget: dict[str, Any], said: str) -> None:
    assert str(spending(run(budget))) == said


def test_by_its_own_clock_where_nothing_was_metered() -> None:
    made = run(Time=[0.0, 1.0, 2.0], tracking_seconds=[0.2, 0.2, 0.2])
    assert spending(made).share == pytest.approx(0.4 / 1.6)
    assert spending(made).told == "tracking adds 25.0%"
    assert spending(run(Time=[0.0])).told == ""


def test_without_the_time_of_steps_by_the_time_of_the_run() -> None:
    made = run(tracking_seconds=[1.0, 1.0])
    made.metadata = {"started": 100.0}
    made.updated = 112.0  # type: ignore[attr-defined]
    assert spending(made).share == pytest.approx(2 / 10)


def test_overhead_needs_two_steps() -> None:
    assert overhead(Series(np.array([0]), np.array([0.0])), Series(np.array([0]), np.array([1.0]))) is None
