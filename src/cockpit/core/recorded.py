"""Records in memory as a source of series."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from cockpit.core.course import Course, Courses, filled
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.source import Parts, Series, Steps, Values, total

COUNTED = frozenset({Kind.HISTOGRAM, Kind.PER_SAMPLE})  # many numbers a step, read one step at a time
SUMMED = frozenset({"HessTrace"})  # in a log without details; else the detail ``total`` says it


class Recorded:
    """A :class:`~cockpit.core.source.Source` over records; a later record for the same step and name stands."""

    reached: int | None = None  #: how many steps the training has taken, recorded or not: the number of the next one

    def __init__(
        self,
        records: Iterable[Record],
        name: str = "run",
        metadata: Mapping[str, Any] | None = None,
        reached: int | None = None,
    ) -> None:
        if reached is not None:
            self.reached = reached
        self.name = name
        self.metadata: Mapping[str, Any] = metadata or {}
        self.kinds: dict[str, Kind] = {}
        self._records: dict[str, dict[int, Record]] = {}
        self._courses: dict[str, Courses] = {}
        for record in records:
            self.kinds.setdefault(record.name, record.kind)
            if isinstance(record.value, Course):
                values = record.value.values
                self._courses.setdefault(record.name, Courses()).add(record.step - len(values) + 1, values)
            else:
                self._records.setdefault(record.name, {})[record.step] = record

    def _of(self, name: str, kind: Kind) -> list[Record]:
        found = self._records.get(name, {}) if self.kinds.get(name) is kind else {}
        return [found[step] for step in sorted(found)]

    def scalar(self, name: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        if self.kinds.get(name) is Kind.PER_PARAMETER:
            parts = self.parts(name)
            rule = self.constant(name, "total") or ("sum" if name in SUMMED else "norm")
            return Series(parts.steps, total(parts.values, rule))
        series = _series(self._of(name, Kind.SCALAR), lambda record: _number(record.value))
        return filled(series, self._courses[name].series()) if name in self._courses else series

    def parts(self, name: str) -> Parts:
        """See :class:`~cockpit.core.source.Source`."""
        records = self._of(name, Kind.PER_PARAMETER)
        keys = tuple(dict.fromkeys(key for record in records for key in record.value or ()))
        place = {key: column for column, key in enumerate(keys)}
        values: Values = np.full((len(records), len(keys)), np.nan)
        for row, record in enumerate(records):
            for key, value in (record.value or {}).items():
                values[row, place[key]] = _number(value)
        return Parts(_steps(records), keys, values)

    def detail(self, name: str, key: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        records = [record for record in self._all(name) if isinstance(record.details.get(key), Real | Mapping)]
        return _series(records, lambda record: _folded(record.details[key]))

    def constant(self, name: str, key: str) -> str | None:
        """See :class:`~cockpit.core.source.Source`."""
        words = [record.details[key] for record in self._all(name) if isinstance(record.details.get(key), str)]
        return words[-1] if words else None

    def counted(self, name: str) -> Steps:
        """See :class:`~cockpit.core.source.Source`."""
        kind = self.kinds.get(name)
        if kind is None or kind not in COUNTED:
            return _steps([])
        return _steps([record for record in self._of(name, kind) if record.value is not None])

    def histogram(self, name: str, step: int) -> Histogram:
        """See :class:`~cockpit.core.source.Source`."""
        value = self._records[name][step].value
        assert isinstance(value, Histogram)
        return value

    def samples(self, name: str, step: int) -> Values:
        """See :class:`~cockpit.core.source.Source`."""
        return np.asarray(self._records[name][step].value, dtype=np.float64).reshape(-1)

    def reasons(self, name: str) -> dict[str, list[int]]:
        """See :class:`~cockpit.core.source.Source`."""
        found: dict[str, list[int]] = {}
        for record in self._all(name):
            if record.reason is not None:
                found.setdefault(record.reason, []).append(record.step)
        return found

    def _all(self, name: str) -> list[Record]:
        return [record for _, record in sorted(self._records.get(name, {}).items())]


def _series(records: list[Record], read: Callable[[Record], float]) -> Series:
    return Series(_steps(records), np.array([read(record) for record in records], dtype=np.float64))


def _steps(records: list[Record]) -> Steps:
    return np.array([record.step for record in records], dtype=np.int64)


def _number(value: Any) -> float:
    """A float; of several numbers about one parameter its norm."""
    if isinstance(value, Mapping):
        value = value.get("norm")
    return float(value) if isinstance(value, Real) else float("nan")


def _folded(value: Any) -> float:
    if isinstance(value, Mapping):
        return float(np.sqrt(sum(float(part) ** 2 for part in value.values())))
    return float(value)
