"""The records of a run, in memory."""

from collections.abc import Iterator, Sequence
from typing import Any

from cockpit.core.record import Record


class History:
    """Records by step and name; a second record for the same step and name replaces the first."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[str, Record]] = {}

    def append(self, record: Record) -> None:
        """Keep one record."""
        self._steps.setdefault(record.step, {})[record.name] = record

    def extend(self, step: int, records: Sequence[Record]) -> None:
        """Keep records of one step; without any, the step stays unknown."""
        if records:
            known = self._steps.get(step)
            if known is None:
                known = self._steps[step] = {}
            for record in records:
                known[record.name] = record

    def __iter__(self) -> Iterator[Record]:
        for step in sorted(self._steps):
            yield from self._steps[step].values()

    def __len__(self) -> int:
        return sum(len(records) for records in self._steps.values())

    def discard(self, step: int) -> None:
        """Drop the records of a step."""
        self._steps.pop(step, None)

    def steps(self) -> list[int]:
        """Return the steps with records, in order."""
        return sorted(self._steps)

    def series(self, name: str) -> list[Record]:
        """Return the records of one quantity, in the order of steps."""
        return [records[name] for _, records in sorted(self._steps.items()) if name in records]

    def output(self) -> dict[int, dict[str, Any]]:
        """Return ``{step: {name: value}}``."""
        return {
            step: {name: record.value for name, record in self._steps[step].items()} for step in sorted(self._steps)
        }

    def reasons(self) -> dict[str, dict[str, list[int]]]:
        """Return for each quantity why it was undefined, and at which steps."""
        found: dict[str, dict[str, list[int]]] = {}
        for record in self:
            if record.reason is not None:
                found.setdefault(record.name, {}).setdefault(record.reason, []).append(record.step)
        return found
