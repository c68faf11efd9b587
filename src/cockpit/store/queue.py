"""Records between the training thread and the writing thread: bounded, so that a slow disk costs no memory."""

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cockpit.core.course import Course
from cockpit.core.histogram import Histogram
from cockpit.core.record import Record

RECORDS = 500_000
BYTES = 256 << 20
FLOATS = frozenset({float})
BATCH_RECORDS, BATCH_BYTES = 50_000, 32 << 20


class Entry(NamedTuple):
    """What one call of ``append`` brought."""

    time: float
    records: tuple[Record, ...]
    size: int


class Queue:
    """First in, first out; where it is full the oldest entry is dropped, and its records are counted as lost."""

    def __init__(self, records: int | None = None, size: int | None = None) -> None:
        self._limits = records or RECORDS, size or BYTES
        self._entries: deque[Entry] = deque()
        self._records = self._size = 0
        self._guard = threading.Lock()
        self._open = True
        self.lost = 0

    def __len__(self) -> int:
        return self._records

    def put(self, records: Sequence[Record]) -> None:
        """Take records over; they must not be changed afterwards."""
        entry = Entry(time.time(), tuple(records), sum(map(size, records)))
        with self._guard:
            if not self._open:
                self.lost += len(entry.records)
                return
            self._entries.append(entry)
            self._add(entry, 1)
            while len(self._entries) > 1 and (self._records > self._limits[0] or self._size > self._limits[1]):
                self.lost += self._pop()

    def take(self) -> list[Entry]:
        """Hand out the oldest entries, at most a batch."""
        found: list[Entry] = []
        records = size = 0
        with self._guard:
            for entry in self._entries:
                if records >= BATCH_RECORDS or size >= BATCH_BYTES:
                    break
                records, size = records + len(entry.records), size + entry.size
                found.append(entry)
            for _ in found:  # last: memory may be lacking, and what is taken must be handed out
                self._entries.popleft()
            self._records, self._size = self._records - records, self._size - size
        return found

    def close(self) -> None:
        """Take nothing more; what still waits is lost."""
        with self._guard:
            self._open = False
            while self._entries:
                self.lost += self._pop()

    def lose(self, records: int) -> None:
        """Count records that could not be written."""
        with self._guard:
            self.lost += records

    def forget(self) -> None:
        """In a forked child: empty and closed; the guard may have been held by a thread that is not there."""
        self.__init__()  # type: ignore[misc]
        self._open = False

    def _pop(self) -> int:
        entry = self._entries.popleft()
        self._add(entry, -1)
        return len(entry.records)

    def _add(self, entry: Entry, sign: int) -> None:
        self._records += sign * len(entry.records)
        self._size += sign * entry.size


def size(record: Record) -> int:
    """About how many bytes a record holds."""
    return 200 if type(record.value) is float else 200 + _size(record.value)


def _size(value: Any) -> int:
    if isinstance(value, Histogram | np.ndarray):
        return value.nbytes
    if isinstance(value, Course):
        return value.values.nbytes
    if isinstance(value, Mapping):
        entries = value.values()
        return 60 * len(value) + (0 if FLOATS.issuperset(map(type, entries)) else sum(map(_size, entries)))
    return 0
