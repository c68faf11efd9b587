"""Lines are broken where values are missing."""

from __future__ import annotations

from math import nan

import numpy as np
from tests.panels.made import of

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.core.source import Series
from cockpit.panels import View, panel
from cockpit.panels.gaps import segments
from cockpit.panels.runs import Runs


def split(series: Series) -> list[int]:
    made = Recorded([Record(int(step), "Loss", Kind.SCALAR, 1.0) for step in series.steps])
    return segments(series, Runs([made], View(axis="linear"))).tolist()


def test_a_value_that_is_missing_ends_a_line() -> None:
    series = Series(np.arange(6), np.array([1.0, 2.0, nan, 3.0, 4.0, nan]))
    assert split(series) == [0, 0, 1, 1]
    shown = panel([of("Loss", {0: 1.0, 1: 2.0, 2: None, 3: 3.0}, "why")], "loss")
    assert [(row["step"], row["g"]) for row in shown.datasets["lines"]] == [(0, 0), (1, 0), (3, 1)]


def test_a_long_silence_ends_a_line_and_a_slower_pace_does_not() -> None:
    away = np.array([*range(10), *range(2000, 2010)])
    assert split(Series(away, np.ones(20))) == [0] * 10 + [1] * 10
    seldom = np.array([*range(100), 2000, 4000])
    assert split(Series(seldom, np.ones(102))) == [0] * 100 + [1] * 2
    slower = np.array([*range(10), *range(40, 4000, 40)])
    assert set(split(Series(slower, np.ones(len(slower))))) == {0}, "hardly seen"
    assert split(Series(np.array([0, 1, 5000]), np.ones(3))) == [0, 0, 0], "too few to know the pace"


def test_a_value_that_stands_alone_is_a_dot() -> None:
    values: dict[int, float | None] = dict.fromkeys(range(200), 1.0)
    values |= {150: None, 151: 5.0, 152: None}
    rows = panel([of("Loss", values, "why")], "loss").datasets["lines"]
    assert [row["step"] for row in rows if row.get("d")] == [151]
