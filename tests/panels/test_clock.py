"""The wall clock, or epochs, as the axis."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pytest
from tests.panels.made import of, records, run

from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import View, deck, layers, panel
from cockpit.panels.clock import SECOND, Clocked, spoken

X = Literal["step", "time", "epoch"]


def epochs(logged: dict[int, float]) -> Recorded:
    """A run that logged its epoch at some steps."""
    known = [Record(step, "epoch", Kind.SCALAR, value) for step, value in logged.items()]
    return Recorded([*records(), *known], "run")


@pytest.mark.parametrize(
    "logged",
    [
        {0: 0.0, 20: 1.0, 40: 2.0},  # at its start
        {step: step // 20 for step in range(80)},  # a whole number at every step
        {step: step / 20 for step in range(0, 80, 5)},  # a fraction
        {0: 0.0, 20: 1.0, 25: 0.0, 30: 1.0, 40: 2.0, 50: float("nan")},  # continued from an earlier one
    ],
)
def test_steps_become_epochs(logged: dict[int, float]) -> None:
    rows = panel([epochs(logged)], "grad-norm", View(x="epoch")).datasets["lines"]
    assert [row["step"] for row in rows] == [step * SECOND // 20 for step in range(0, 80, 2)]


def test_every_panel_can_be_drawn_over_epochs() -> None:
    source = epochs({0: 0.0, 20: 1.0, 40: 2.0})
    shown = [*deck([source], View(x="epoch")), *layers(source, View(x="epoch"), "GradHist1d")]
    assert not [one.id for one in shown if one.empty]
    assert panel([source], "hist2d", View(x="epoch", step=int(1.5 * SECOND))).note == "epoch 1.5"
    assert "epoch" not in panel([source], "metrics").note, "it is an axis, not a metric"


@pytest.mark.parametrize("logged", [{}, {3: 1.0}, {3: 1.0, 8: 1.0}])
def test_a_run_without_epochs(logged: dict[int, float]) -> None:
    with pytest.raises(CockpitError, match=r"run has logged fewer than two epochs; log them, as pit.log\(epoch=3\)"):
        panel([epochs(logged)], "loss", View(x="epoch"))


def test_an_axis_that_nobody_knows() -> None:
    with pytest.raises(CockpitError, match="x is 'weeks'"):
        View(x="weeks")  # type: ignore[arg-type]


def test_steps_become_times() -> None:
    source = run()  # half a second a step
    rows = panel([source], "loss", View(x="time")).datasets["lines"]
    assert [row["step"] for row in rows] == [step * SECOND // 2 for step in range(0, 80, 2)]
    assert [row["v"] for row in rows] == [row["v"] for row in panel([source], "loss").datasets["lines"]]


def test_every_panel_can_be_drawn() -> None:
    shown = [*deck([run()], View(x="time")), *layers(run(), View(x="time"), "GradHist1d")]
    assert not [one.id for one in shown if one.empty]
    params = {p["name"]: p.get("value") for p in shown[3].spec["params"]}
    assert (params["lo"], params["hi"]) == (0, 39 * SECOND)


def test_a_span_and_a_step_are_times() -> None:
    view = View(x="time", span=(5 * SECOND, 10 * SECOND), step=7 * SECOND)
    cells = panel([run()], "hist1d-time", view).datasets["cells"]
    assert {row["at"] for row in cells} <= set(range(4 * SECOND, 12 * SECOND))
    assert panel([run()], "hist2d", view).note == "7 s"


def test_seconds_of_a_step_are_the_same_on_both_axes() -> None:
    source = epochs({step: step / 10 for step in range(80)})
    by_step, by_time, by_epoch = (
        [row["v"] for row in panel([source], "cost", View(x=x)).datasets["lines"]] for x in get_args(X)
    )
    assert by_step == by_time == by_epoch


def test_steps_between_and_beyond_the_timed_ones() -> None:
    source = of("Time", {0: 0.0, 10: 10.0, 20: 40.0})
    assert Clocked(source).times(np.array([5, 15, 22])).tolist() == [5 * SECOND, 25 * SECOND, 46 * SECOND]


def test_steps_after_the_last_tracked_step_were_plain() -> None:
    source = of("Time", {0: 0.0, 10: 10.0, 20: 20.0})
    source.metadata = {"cost": {"budget": {"plain": 0.25}}}
    assert Clocked(source).times(np.array([22])).tolist() == [20.5 * SECOND]
    source.metadata = {"cost": {"budget": {"plain": 4.0}}}
    assert Clocked(source).times(np.array([22])).tolist() == [22 * SECOND], "no slower than the last known steps"


def test_no_two_steps_fall_together() -> None:
    times = Clocked(of("Time", dict.fromkeys(range(100), 1.0))).times(np.arange(100))
    assert (np.diff(times) > 0).all()


def test_a_run_without_times() -> None:
    with pytest.raises(CockpitError, match="add 'Time' to the quantities"):
        panel([of("Loss", {0: 1.0, 1: 2.0})], "loss", View(x="time"))


@pytest.mark.parametrize(("seconds", "said"), [(0.05, "0.05 s"), (75, "1 min 15 s"), (7500, "2 h 05 min")])
def test_words(seconds: float, said: str) -> None:
    assert spoken(seconds * SECOND) == said
