"""The records of a run, in memory."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cockpit.core.kinds import Kind
from cockpit.core.record import Record


class Column:
    """One quantity, by step. A record is made when it is asked for: a number that is kept is no object to watch over.

    Python's collector looks through all objects that may hold others; millions of records would slow a long run.
    """

    __slots__ = ("details", "kind", "reasons", "values")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.values: dict[int, Any] = {}
        self.reasons: dict[int, str] = {}  # of values that are not defined
        self.details: dict[int, Mapping[str, Any]] = {}  # where there are some

    def put(self, record: Record) -> None:
        """Keep one record."""
        step, _, self.kind, value, reason, details = record
        if step in self.values:
            self.drop(step)
        self.values[step] = value
        if reason is not None:
            self.reasons[step] = reason
        if details:
            self.details[step] = details

    def drop(self, step: int) -> None:
        """Forget a step."""
        for part in (self.values, self.reasons, self.details):
            part.pop(step, None)

    def record(self, step: int, name: str) -> Record:
        """As it was kept."""
        kept = step, name, self.kind, self.values[step], self.reasons.get(step)
        return Record(*kept, self.details[step]) if step in self.details else Record(*kept)


class History:
    """Records by step and name; a second record for the same step and name replaces the first."""

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}

    def append(self, record: Record) -> None:
        """Keep one record."""
        column = self._columns.get(record.name)
        if column is None:
            column = self._columns[record.name] = Column(record.kind)
        column.put(record)

    def extend(self, records: Sequence[Record]) -> None:
        """Keep several records."""
        for record in records:
            self.append(record)

    def __iter__(self) -> Iterator[Record]:
        for step in self.steps():
            for name, column in self._columns.items():
                if step in column.values:
                    yield column.record(step, name)

    def __len__(self) -> int:
        return sum(len(column.values) for column in self._columns.values())

    def discard(self, step: int) -> None:
        """Drop the records of a step."""
        for column in self._columns.values():
            column.drop(step)

    def steps(self) -> list[int]:
        """Return the steps with records, in order."""
        return sorted(set[int]().union(*(column.values for column in self._columns.values())))

    def series(self, name: str) -> list[Record]:
        """Return the records of one quantity, in the order of steps."""
        column = self._columns.get(name)
        return [] if column is None else [column.record(step, name) for step in sorted(column.values)]

    def output(self) -> dict[int, dict[str, Any]]:
        """Return ``{step: {name: value}}``."""
        found: dict[int, dict[str, Any]] = {}
        for record in self:
            found.setdefault(record.step, {})[record.name] = record.value
        return found

    def reasons(self) -> dict[str, dict[str, list[int]]]:
        """Return for each quantity why it was undefined, and at which steps."""
        found: dict[str, dict[str, list[int]]] = {}
        for name, column in self._columns.items():
            for step, reason in sorted(column.reasons.items()):
                found.setdefault(name, {}).setdefault(reason, []).append(step)
        return found
