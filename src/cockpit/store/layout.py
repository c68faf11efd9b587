"""Layouts: what the numbers of a frame mean; frames with the same layout join into one matrix."""

import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from cockpit.core import reading
from cockpit.core.course import Course
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import node, tail
from cockpit.store.item import Frame, Item, Layout
from cockpit.store.template import NO_DETAILS, NO_VALUE, NOTHING, Taken, Template, skip

MANY = 500  # layouts; from then on words that change all the time are kept with each record


class Packer:
    """Turns records into frames, and gives each new layout a number."""

    def __init__(self, attempt: int, next_layout: int) -> None:
        self._attempt, self._next = attempt, next_layout
        self._known: dict[Any, int] = {}
        self._sizes: dict[int, int] = {}  # records of a frame with this layout
        self._shapes: dict[tuple[str, Kind], tuple[node.Node, node.Node]] = {}
        self._templates: dict[tuple[str, ...], Template] = {}  # by names; all hold as long as nothing above changes
        self._steady = False  # nothing has changed in the frame under way

    def again(self) -> "Packer":
        """Begin anew: what this one gave out was not written."""
        new = Packer(self._attempt, self._next)
        new._sizes = self._sizes
        return new

    def records(self, items: Iterable[Item]) -> int:
        """How many records these items hold."""
        return sum(self._sizes[item.layout] for item in items if isinstance(item, Frame))

    def pack(self, records: Sequence[Record], time: float) -> list[Item]:
        """Return the frames of some records, new layouts before them."""
        steps: defaultdict[int, list[Record]] = defaultdict(list)
        items: list[Item] = []
        for record in records:
            if isinstance(record.value, Course):
                items.extend(self._course(record, record.value, time))
            else:
                steps[record.step].append(record)
        for step, found in steps.items():
            _, names, kinds, values, reasons, details = zip(*found, strict=True)
            template = self._templates.get(names)
            filled = None if template is None else template.fill(kinds, values, reasons, details)
            if template is None or filled is None:
                items.extend(self._frame(int(step), found, time))
            else:
                numbers, rest = filled
                items.append(Frame(self._attempt, int(step), template.layout, time, numbers, template.notes, rest))
        return items

    def _frame(self, step: int, records: list[Record], time: float) -> Iterator[Item]:
        numbers: list[float] = []
        chunks: list[bytes] = []
        words, self._steady = len(self._known) < MANY, True
        taken = [self._take(record, numbers, chunks, words) for record in records]
        layout = [
            (record.name, record.kind.value, value, details)
            for record, (value, details, _) in zip(records, taken, strict=True)
        ]
        number = yield from self._number(layout)
        notes = _notes(records, taken)
        self._remember(records, taken, words, number, notes)
        packed = np.array(numbers, dtype="<f8").tobytes()
        yield Frame(self._attempt, step, number, time, packed, notes, tail.join(chunks))

    def _course(self, record: Record, course: Course, time: float) -> Iterator[Item]:
        """A frame of many steps, with the number of the last one."""
        number = yield from self._number([(record.name, record.kind.value, node.COURSE, NOTHING)])
        yield Frame(self._attempt, record.step, number, time, course.values.astype("<f8").tobytes(), None, None)

    def _number(self, layout: list[Any]) -> Generator[Item, None, int]:
        key = tuple(layout)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self._next
            self._sizes[number] = len(layout)
            self._next += 1
            self._change()
            yield Layout(number, json.dumps(layout, separators=(",", ":")))
        return number

    def _take(self, record: Record, numbers: list[float], chunks: list[bytes], words: bool) -> Taken:
        """Keep to the last shape where a value or its details are missing: one layout, not one for each gap."""
        flags, key = 0, (record.name, record.kind)
        known = self._shapes.get(key, ("f" if record.kind is Kind.SCALAR else None, NOTHING))
        if record.value is None and known[0] is not None:
            flags, value = NO_VALUE, known[0]
            skip(value, numbers, chunks)
        else:
            value = node.take(record.value, numbers, chunks, words=False)
        if not record.details and known[1] != NOTHING:
            flags, details = flags | NO_DETAILS, known[1]
            skip(details, numbers, chunks)
        else:
            details = node.take(record.details, numbers, chunks, words)
        now = known[0] if record.value is None else value, details
        if self._shapes.get(key) != now:
            self._shapes[key] = now
            self._change()
        return value, details, flags

    def _change(self) -> None:
        """What templates rest on is no longer the same."""
        self._steady = False
        self._templates.clear()

    def _remember(self, records: list[Record], taken: list[Taken], words: bool, layout: int, notes: str | None) -> None:
        """Keep a template of a frame that brought nothing new: the next one like it would be taken apart alike."""
        if self._steady:
            _, names, kinds, _, reasons, _ = zip(*records, strict=True)
            self._templates[names] = Template(kinds, reasons, taken, words, layout, notes)


def _notes(records: Sequence[Record], taken: Sequence[Taken]) -> str | None:
    found = [
        (index, record.reason, flags)
        for index, (record, (_, _, flags)) in enumerate(zip(records, taken, strict=True))
        if flags or record.reason is not None
    ]
    return json.dumps(found) if found else None


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
    """Read a layout; ``ValueError`` if it is not what a writer writes."""
    found, column, chunk = [], 0, 0
    for index, (name, kind, value, details) in enumerate(reading.parsed(text)):
        if not isinstance(name, str) or len(name) > node.NAME:
            raise ValueError("no name")
        node.check(value)
        node.check(details)
        found.append(Field(index, name, Kind(kind), value, details, column, chunk))
        for shape in (value, details):
            columns, chunks = node.size(shape)
            column, chunk = column + columns, chunk + chunks
    return found


def course(found: Sequence[Field]) -> str | None:
    """What a frame of many steps holds; None for any other."""
    return found[0].name if len(found) == 1 and found[0].value == node.COURSE else None


def width(found: Sequence[Field]) -> int:
    """Number of columns of a layout."""
    return sum(node.size(field.value)[0] + node.size(field.details)[0] for field in found)


@lru_cache(maxsize=4096)
def notes(text: str) -> dict[int, tuple[str | None, int]]:
    """Read the notes of a frame: for a record, by its index, the reason and the flags."""
    found = {index: (reason, flags) for index, reason, flags in reading.parsed(text)}
    for index, (reason, flags) in found.items():
        if type(index) is not int or type(flags) is not int or not (reason is None or isinstance(reason, str)):
            raise ValueError("no note")
    return found
