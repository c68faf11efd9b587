"""Layouts: what the numbers of a frame mean; frames with the same layout join into one matrix."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import node, tail
from cockpit.store.item import Frame, Item, Layout

NO_VALUE, NO_DETAILS = 1, 2  # flags of a note: the columns are there, but mean nothing
MANY = 500  # layouts; from then on words that change all the time are kept with each record
NOTHING: node.Node = ("d",)


class Packer:
    """Turns records into frames, and gives each new layout a number."""

    def __init__(self, attempt: int, next_layout: int) -> None:
        self._attempt, self._next = attempt, next_layout
        self._known: dict[Any, int] = {}
        self._shapes: dict[tuple[str, Kind], tuple[node.Node, node.Node]] = {}

    def again(self) -> "Packer":
        """Begin anew: what this one gave out was not written."""
        return Packer(self._attempt, self._next)

    def pack(self, records: Sequence[Record], time: float) -> list[Item]:
        """Return the frames of some records, new layouts before them."""
        steps: dict[int, list[Record]] = {}
        for record in records:
            steps.setdefault(int(record.step), []).append(record)
        return [item for step, found in steps.items() for item in self._frame(step, found, time)]

    def _frame(self, step: int, records: list[Record], time: float) -> Iterator[Item]:
        numbers: list[float] = []
        chunks: list[bytes] = []
        notes: list[tuple[int, str | None, int]] = []
        layout = []
        for index, record in enumerate(records):
            value, details, flags = self._take(record, numbers, chunks)
            if flags or record.reason is not None:
                notes.append((index, record.reason, flags))
            layout.append((record.name, record.kind.value, value, details))
        key = tuple(layout)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self._next
            self._next += 1
            yield Layout(number, json.dumps(layout, separators=(",", ":")))
        packed = np.array(numbers, dtype="<f8").tobytes()
        yield Frame(self._attempt, step, number, time, packed, json.dumps(notes) if notes else None, tail.join(chunks))

    def _take(self, record: Record, numbers: list[float], chunks: list[bytes]) -> tuple[node.Node, node.Node, int]:
        """Keep to the last shape where a value or its details are missing: one layout, not one for each gap."""
        flags, words = 0, len(self._known) < MANY
        known = self._shapes.get((record.name, record.kind), ("f" if record.kind is Kind.SCALAR else None, NOTHING))
        if record.value is None and known[0] is not None:
            flags, value = NO_VALUE, known[0]
            _skip(value, numbers, chunks)
        else:
            value = node.take(record.value, numbers, chunks, words=False)
        if not record.details and known[1] != NOTHING:
            flags, details = flags | NO_DETAILS, known[1]
            _skip(details, numbers, chunks)
        else:
            details = node.take(record.details, numbers, chunks, words)
        self._shapes[record.name, record.kind] = (known[0] if record.value is None else value, details)
        return value, details, flags


def _skip(shape: node.Node, numbers: list[float], chunks: list[bytes]) -> None:
    columns, blanks = node.size(shape)
    numbers.extend([float("nan")] * columns)
    chunks.extend([b""] * blanks)


@dataclass(frozen=True)
class Field:
    """One record of a layout: where its numbers and its chunks begin."""

    index: int
    name: str
    kind: Kind
    value: node.Node
    details: node.Node
    column: int
    chunk: int

    @cached_property
    def columns(self) -> Any:
        """Columns of the value."""
        return node.columns(self.value, self.column)

    @cached_property
    def detail_columns(self) -> Mapping[str, Any]:
        """Columns of the details."""
        return node.columns(self.details, self.column + node.size(self.value)[0]) or {}

    @cached_property
    def words(self) -> dict[str, str]:
        """Details that are texts."""
        match self.details:
            case ["d", *entries]:
                return {key: entry[1] for key, entry in entries if entry[0] == "c" and isinstance(entry[1], str)}
        return {}

    def record(self, step: int, numbers: Sequence[float], chunks: list[bytes], note: tuple[str | None, int]) -> Record:
        """Put the record together again."""
        reason, flags = note
        (wide, many), value, details = node.size(self.value), None, {}
        if not flags & NO_VALUE:
            value = node.give(self.value, iter(numbers[self.column :]), iter(chunks[self.chunk :]))
        if not flags & NO_DETAILS:
            rest = iter(numbers[self.column + wide :]), iter(chunks[self.chunk + many :])
            details = node.give(self.details, *rest)
        return Record(step, self.name, self.kind, value, reason, details)


def fields(text: str) -> list[Field]:
    """Read a layout."""
    found, column, chunk = [], 0, 0
    for index, (name, kind, value, details) in enumerate(json.loads(text)):
        found.append(Field(index, name, Kind(kind), value, details, column, chunk))
        for shape in (value, details):
            columns, chunks = node.size(shape)
            column, chunk = column + columns, chunk + chunks
    return found


def width(found: Sequence[Field]) -> int:
    """Number of columns of a layout."""
    return sum(node.size(field.value)[0] + node.size(field.details)[0] for field in found)


@lru_cache(maxsize=4096)
def notes(text: str) -> dict[int, tuple[str | None, int]]:
    """Read the notes of a frame: for a record, by its index, the reason and the flags."""
    return {index: (reason, flags) for index, reason, flags in json.loads(text)}
