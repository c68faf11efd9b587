"""Numbers of steps in a row: kept small, and laid under what was measured."""

from __future__ import annotations

import numpy as np

from cockpit.core.course import Course, Courses, filled
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.core.source import Series


def series(**values: float) -> Series:
    """``_3=0.5``: 0.5 at step 3."""
    return Series(np.array([int(step[1:]) for step in values], dtype=np.int64), np.array([*values.values()]))


def test_steps_in_a_row_are_one_part() -> None:
    courses = Courses()
    for first, values in ((3, [1.0, 2.0]), (5, [3.0]), (9, [4.0, np.inf])):
        courses.add(first, np.array(values))
    found = courses.series()
    assert found.steps.tolist() == [3, 4, 5, 9, 10]
    assert found.values.tolist() == [1, 2, 3, 4, np.inf]
    assert len(courses) == 5
    assert [record.step for record in courses.records("Loss")] == [5, 10]


def test_what_was_measured_stands_unless_it_is_undefined() -> None:
    found = filled(series(_0=1.0, _2=np.nan, _7=np.nan), series(_0=-1.0, _1=2.0, _2=3.0, _3=np.nan))
    assert found.steps.tolist() == [0, 1, 2, 3, 7]
    np.testing.assert_array_equal(found.values, [1, 2, 3, np.nan, np.nan])


def test_of_several_for_a_step_the_last_one_counts() -> None:
    courses = Courses()
    courses.add(0, np.array([1.0, 2.0, 3.0]))
    courses.add(1, np.array([5.0]))
    found = filled(series(), courses.series())
    assert found.steps.tolist() == [0, 1, 2]
    assert found.values.tolist() == [1, 5, 3]


def test_records_of_both_kinds_are_one_series() -> None:
    records = [
        Record(2, "Loss", Kind.SCALAR, 0.5),
        Record(3, "Loss", Kind.SCALAR, None, "undefined"),
        Record(4, "Loss", Kind.SCALAR, Course(np.array([1.0, 2.0, 3.0, np.nan]))),
    ]
    source = Recorded(records)
    assert source.scalar("Loss").steps.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(source.scalar("Loss").values, [1, 0.5, 3, np.nan])
    assert source.reasons("Loss") == {"undefined": [3]}
    assert source.kinds == {"Loss": Kind.SCALAR}
