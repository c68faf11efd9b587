"""The wall clock as the axis."""

from __future__ import annotations

import numpy as np
import pytest
from tests.panels.made import of, run

from cockpit.core.errors import CockpitError
from cockpit.panels import View, deck, layers, panel
from cockpit.panels.clock import SECOND, Clocked, spoken


def test_steps_become_times() -> None:
    source = run()  # half a second a step
    rows = panel([source], "loss", View(clock=True)).datasets["lines"]
    assert [row["step"] for row in rows] == [step * SECOND // 2 for step in range(0, 80, 2)]
    assert [row["v"] for row in rows] == [row["v"] for row in panel([source], "loss").datasets["lines"]]


def test_every_panel_can_be_drawn() -> None:
    shown = [*deck([run()], View(clock=True)), *layers(run(), View(clock=True), "GradHist1d")]
    assert not [one.id for one in shown if one.empty]
    params = {p["name"]: p.get("value") for p in shown[3].spec["params"]}
    assert (params["lo"], params["hi"]) == (0, 39 * SECOND)


def test_a_span_and_a_step_are_times() -> None:
    view = View(clock=True, span=(5 * SECOND, 10 * SECOND), step=7 * SECOND)
    cells = panel([run()], "hist1d-time", view).datasets["cells"]
    assert {row["at"] for row in cells} <= set(range(4 * SECOND, 12 * SECOND))
    assert panel([run()], "hist2d", view).note == "7 s"


def test_seconds_of_a_step_are_the_same_on_both_axes() -> None:
    by_step, by_time = (panel([run()], "cost", View(clock=clock)).datasets["lines"] for clock in (False, True))
    assert [row["v"] for row in by_step] == [row["v"] for row in by_time]


def test_steps_between_and_beyond_the_timed_ones() -> None:
    source = of("Time", {0: 0.0, 10: 10.0, 20: 40.0})
    assert Clocked(source).times(np.array([5, 15, 22])).tolist() == [5 * SECOND, 25 * SECOND, 46 * SECOND]


def test_no_two_steps_fall_together() -> None:
    times = Clocked(of("Time", dict.fromkeys(range(100), 1.0))).times(np.arange(100))
    assert (np.diff(times) > 0).all()


def test_a_run_without_times() -> None:
    with pytest.raises(CockpitError, match="add 'Time' to the quantities"):
        panel([of("Loss", {0: 1.0, 1: 2.0})], "loss", View(clock=True))


@pytest.mark.parametrize(("seconds", "said"), [(0.05, "0.05 s"), (75, "1 min 15 s"), (7500, "2 h 05 min")])
def test_words(seconds: float, said: str) -> None:
    assert spoken(seconds * SECOND) == said
