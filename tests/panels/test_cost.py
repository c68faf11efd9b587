"""Time for a step and the cost of tracking."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import run

from cockpit.core.source import Series
from cockpit.panels import panel
from cockpit.panels.cost import overhead, step_seconds

TIMES = Series(np.array([0, 2, 4]), np.array([0.0, 3.0, 6.0]))
COSTS = Series(np.array([0, 2, 4]), np.array([1.0, 1.0, 1.0]))


def test_seconds_of_a_step_are_without_tracking() -> None:
    found = step_seconds(TIMES, COSTS)
    assert found.steps.tolist() == [2, 4]
    assert found.values.tolist() == [1.0, 1.0]  # (3 - 1) seconds for two steps


def test_overhead_is_relative_to_everything_else() -> None:
    assert overhead(TIMES, COSTS) == pytest.approx(2 / 4)
    assert overhead(Series(TIMES.steps[:1], TIMES.values[:1]), COSTS) is None


def test_panel_tells_the_share() -> None:
    assert "tracking adds 25.0%" in panel([run()], "cost").note  # 0.2 s for each 1 s between tracked steps


def test_what_was_metered_against_plain_steps_is_told_instead() -> None:
    made = run()
    made.metadata = {**made.metadata, "cost": {"budget": {"spent": 3.0, "trained": 100.0}}}
    assert "tracking adds 3.0%" in panel([made], "cost").note
