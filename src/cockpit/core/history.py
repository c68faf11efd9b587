"""The records of a run, in memory."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cockpit.core.kinds import Kind
from cockpit.core.record import Record


class Column:
    """The values of a quantity by step; records are built on request.

    Python's collector scans every container; millions of stored records would slow a long run.
    """

    __slots__ = ("details", "kind", "reasons", "values")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.values: dict[int, Any] = {}
        self.reasons: dict[int, str] = {}  # of undefined values
        self.details: dict[int, Mapping[str, Any]] = {}  # of values that have some

    def put(self, record: Record) -> None:
        """Store a record."""
        step, _, self.kind, value, reason, details = record
        if step in self.values:
            self.drop(step)
        self.values[step] = value
        if reason is not None:
            self.reasons[step] = reason
        if details:
            self.details[step] = details

    def drop(self, step: int) -> None:
        """Remove a step."""
        for part in (self.values, self.reasons, self.details):
            part.pop(step, None)

    def record(self, step: int, name: str) -> Record:
        """Return the record of a step."""
        kept = step, name, self.kind, self.values[step], self.reasons.get(step)
        return Record(*kept, self.details[step]) if step in self.details else Record(*kept)


class History:
    """The records of a run, by step and name; a second record for the same step and name replaces the first."""

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}

    def append(self, record: Record) -> None:
        """Store a record."""
        column = self._columns.get(record.name)
        if column is None:
            column = self._columns[record.name] = Column(record.kind)
        column.put(record)

    def extend(self, records: Sequence[Record]) -> None:
        """Store several records."""
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
        """Remove the records of a step."""
        for column in self._columns.values():
            column.drop(step)

    def steps(self) -> list[int]:
        """Return the steps with records, in order."""
        return sorted(set[int]().union(*(column.values for column in self._columns.values())))

    def series(self, name: str) -> list[Record]:
        """Return the records of a quantity, in the order of steps."""
        column = self._columns.get(name)
        return [] if column is None else [column.record(step, name) for step in sorted(column.values)]

    def output(self) -> dict[int, dict[str, Any]]:
        """Return ``{step: {name: value}}``."""
        output: dict[int, dict[str, Any]] = {}
        for record in self:
            output.setdefault(record.step, {})[record.name] = record.value
        return output

    def reasons(self) -> dict[str, dict[str, list[int]]]:
        """Return ``{name: {reason: steps}}`` of all undefined values."""
        undefined: dict[str, dict[str, list[int]]] = {}
        for name, column in self._columns.items():
            for step, reason in sorted(column.reasons.items()):
                undefined.setdefault(name, {}).setdefault(reason, []).append(step)
        return undefined
