"""A number at each of several steps in a row: how the loss of every step is passed on and kept."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.source import Series, Values


@dataclass(frozen=True, slots=True)
class Course:
    """The values of steps in a row; the record that holds them has the number of the last one."""

    values: Values  # [n]


class Courses:
    """A number of every step, but for gaps; eight bytes a step."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, array[float]]] = []  # the first step, and the values from there

    def __len__(self) -> int:
        return sum(len(values) for _, values in self._parts)

    def add(self, first: int, values: Values) -> None:
        """Put values at the end, from a step on."""
        if not self._parts or self._parts[-1][0] + len(self._parts[-1][1]) != first:
            self._parts.append((first, array("d")))
        self._parts[-1][1].frombytes(np.ascontiguousarray(values, dtype=np.float64).tobytes())

    def records(self, name: str) -> Iterator[Record]:
        """Yield them as records of a scalar."""
        for first, values in self._parts:
            yield Record(first + len(values) - 1, name, Kind.SCALAR, Course(np.array(values)))

    def series(self) -> Series:
        """Return them in the order in which they came."""
        steps = [np.arange(first, first + len(values), dtype=np.int64) for first, values in self._parts]
        values = [np.array(values) for _, values in self._parts]
        return Series(np.concatenate([np.empty(0, np.int64), *steps]), np.concatenate([np.empty(0), *values]))


def filled(series: Series, course: Series) -> Series:
    """A series with the values of a course where it has no number; of several for a step the last one counts."""
    if not len(course):
        return series
    known = ~np.isnan(series.values)
    steps = np.concatenate([series.steps[~known], course.steps, series.steps[known]])
    values = np.concatenate([series.values[~known], course.values, series.values[known]])
    order = np.argsort(steps, kind="stable")
    order = order[np.append(np.diff(steps[order]) > 0, True)]
    return Series(steps[order], values[order])
