"""The frames of a run in memory: a list of them, and their numbers as one matrix for each layout."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.core.source import Series
from cockpit.store import node
from cockpit.store.backend import Reader
from cockpit.store.item import Attempt, Entry, Layout
from cockpit.store.layout import Field, course, fields, notes, width
from cockpit.store.template import NO_DETAILS, NO_VALUE
from cockpit.store.track import Group, Rows, Track

Matrix = NDArray[np.float64]
DAMAGED = "damaged"  # why a value cannot be shown


class Grown:
    """An array that grows at its end without being copied each time."""

    def __init__(self, dtype: Any, *shape: int) -> None:
        self._space: NDArray[Any] = np.empty((16, *shape), dtype=dtype)
        self._length = 0

    def extend(self, rows: NDArray[Any]) -> None:
        """Put rows at the end."""
        end = self._length + len(rows)
        if end > len(self._space):
            larger = np.empty((max(end, 2 * len(self._space)), *self._space.shape[1:]), dtype=self._space.dtype)
            larger[: self._length] = self.view
            self._space = larger
        self._space[self._length : end] = rows
        self._length = end

    @property
    def view(self) -> NDArray[Any]:
        """What is there."""
        return self._space[: self._length]


class Columns:
    """Frames in the order in which they were written."""

    def __init__(self) -> None:
        self.fields: dict[int, list[Field]] = {}
        self.notes: dict[int, dict[int, tuple[str | None, int]]] = {}  # of frames
        self._index = {name: Grown(np.int64) for name in ("place", "attempt", "step", "layout")}
        self._times = Grown(np.float64)
        self._loaded = 0  # frames whose numbers are in memory
        self._matrices: dict[int, tuple[Grown, Grown]] = {}  # by layout: numbers, frames
        self._courses: dict[str, tuple[Grown, Grown, Grown]] = {}  # by name: steps, attempts, values

    def __len__(self) -> int:
        return len(self._times.view)

    def add(self, layouts: Sequence[Layout], entries: Sequence[Entry]) -> list[int]:
        """Take in what is new; returns the frames whose layout is damaged."""
        for layout in layouts:
            with suppress(ValueError, TypeError, LookupError, RecursionError):
                self.fields[layout.id] = fields(layout.text)
        first = len(self)
        for name, column in self._index.items():
            column.extend(np.array([getattr(entry, name) for entry in entries], dtype=np.int64))
        self._times.extend(np.array([entry.time for entry in entries], dtype=np.float64))
        for frame, entry in enumerate(entries, first):
            if entry.notes is not None:
                with suppress(ValueError, TypeError):
                    self.notes[frame] = notes(entry.notes)
        return (first + np.flatnonzero(~np.isin(self["layout"][first:], list(self.fields)))).tolist()

    def __getitem__(self, name: str) -> Rows:
        return self._index[name].view

    @property
    def times(self) -> Matrix:
        """When each frame was recorded."""
        return self._times.view

    def visible(self, attempts: Sequence[Attempt]) -> NDArray[np.bool_]:
        """Which frames count: those that no later attempt has replaced."""
        return self._standing(attempts, self["step"], self["attempt"])

    def _standing(self, attempts: Sequence[Attempt], steps: Rows, whose: Rows) -> NDArray[np.bool_]:
        step, attempt = self["step"], self["attempt"]
        seen = np.ones(len(steps), dtype=bool)
        for later in attempts:
            own, earlier = step[attempt == later.id], attempt < later.id
            if not earlier.any():
                continue
            reached = later.first_step if later.reached is None else later.reached
            last = own.max(initial=reached - 1)  # the step it has come to is not done yet
            if len(own) and later.first_step <= step[earlier].min():
                last = max(last, step[earlier].max())  # all over again
            seen &= ~((whose < later.id) & (steps >= later.first_step) & (steps <= last))
        return seen

    def track(self, name: str, visible: NDArray[np.bool_]) -> Track:
        """Find the records of a name; of several for a step the last one counts."""
        members = self._members(visible)
        found = [
            (field, layout, members[layout])
            for layout in members
            for field in self.fields[layout]
            if field.name == name and field.value != node.COURSE
        ]
        frames = np.concatenate([np.empty(0, np.int64), *(rows for _, _, rows in found)])
        which = np.repeat(np.arange(len(found)), [len(rows) for _, _, rows in found])
        steps = self["step"][frames]
        order = np.lexsort((which, frames, steps))
        last = np.append(np.diff(steps[order]) > 0, True) if len(order) else np.empty(0, bool)
        order = order[last]
        frames, which, steps = frames[order], which[order], steps[order]
        groups = [
            Group(field, layout, at, frames[at])
            for number, (field, layout, _) in enumerate(found)
            if len(at := np.flatnonzero(which == number))
        ]
        return Track(steps, groups)

    def course(self, name: str, attempts: Sequence[Attempt]) -> Series:
        """The numbers of a name that came for many steps at a time; of several for a step the last one counts."""
        if name not in self._courses:
            return Series(np.empty(0, np.int64), np.empty(0))
        steps, whose, values = (column.view for column in self._courses[name])
        seen = self._standing(attempts, steps, whose)
        return Series(steps[seen], values[seen])

    def courses(self, visible: NDArray[np.bool_], name: str | None = None) -> Rows:
        """The visible frames of many steps, in all or of a name."""
        layouts = [layout for layout, found in self.fields.items() if (of := course(found)) and name in (None, of)]
        return np.flatnonzero(visible & np.isin(self["layout"], layouts))

    def _members(self, visible: NDArray[np.bool_]) -> dict[int, Rows]:
        """The visible frames of each layout."""
        frames = np.flatnonzero(visible)
        layouts = self["layout"][frames]
        order = np.argsort(layouts, kind="stable")
        some, first = np.unique(layouts[order], return_index=True)
        return dict(zip(some.tolist(), np.split(frames[order], first[1:]), strict=False))

    def load(self, reader: Reader) -> list[int]:
        """Bring the numbers of all frames into memory; returns the frames whose numbers are damaged."""
        first = self._loaded
        places, layouts = self["place"][first:], self["layout"][first:]
        heads = zip(self["attempt"][first:].tolist(), self["step"][first:].tolist(), layouts.tolist(), strict=True)
        known = dict(zip(places.tolist(), heads, strict=True))
        found = {place: some for place, head, some in reader.numbers(places.tolist()) if known.get(place) == head}
        for place in _doubled(places):  # a damaged row that gives itself out as another one: which is which is unknown
            found.pop(place, None)
        damaged: list[int] = []
        fresh, courses = [], []
        for layout in np.unique(layouts).tolist():
            if layout not in self.fields:
                continue
            wide = width(self.fields[layout])
            frames = np.flatnonzero(layouts == layout)
            numbers = [found.get(place, b"") for place in places[frames].tolist()]
            if (name := course(self.fields[layout])) is not None:
                ends, whose = self["step"][first + frames], self["attempt"][first + frames]
                pairs = zip(numbers, ends.tolist(), strict=True)
                sound = np.array([_fits(some, end) for some, end in pairs], dtype=bool)
                damaged += (first + frames[~sound]).tolist()
                whole = [some for some, fits in zip(numbers, sound, strict=True) if fits]
                courses.append((name, ends[sound], whose[sound], whole))
                continue
            sound = np.array([len(some) == 8 * wide for some in numbers], dtype=bool)
            damaged += (first + frames[~sound]).tolist()
            rows = b"".join([some for some in numbers if len(some) == 8 * wide])
            fresh.append((layout, wide, np.frombuffer(rows, dtype="<f8").reshape(-1, wide), first + frames[sound]))
        for layout, wide, matrix, members in fresh:  # nothing fails from here on
            kept = self._matrices.setdefault(layout, (Grown(np.float64, wide), Grown(np.int64)))
            kept[0].extend(matrix)
            kept[1].extend(members)
        for name, ends, whose, whole in courses:
            self._follow(name, ends, whose, whole)
        self._loaded = len(self)
        return damaged

    def _follow(self, name: str, ends: Rows, whose: Rows, numbers: Sequence[bytes]) -> None:
        """Put the numbers of many steps at the end."""
        counts = np.array([len(some) // 8 for some in numbers], dtype=np.int64)
        total = int(counts.sum())
        steps = np.repeat(ends - np.cumsum(counts) + 1, counts) + np.arange(total)
        new = Grown(np.int64), Grown(np.int64), Grown(np.float64)
        columns = self._courses.setdefault(name, new)
        values = np.frombuffer(b"".join(numbers), dtype="<f8")
        for column, rows in zip(columns, (steps, np.repeat(whose, counts), values), strict=True):
            column.extend(rows)

    @property
    def complete(self) -> bool:
        """Whether all numbers are in memory."""
        return self._loaded == len(self)

    def numbers(self, layout: int, frames: Rows) -> Matrix:
        """The numbers of frames with the same layout; NaN where they could not be read for the moment."""
        wide = width(self.fields[layout])
        matrix, members = self._matrices.get(layout) or (Grown(np.float64, wide), Grown(np.int64))
        there = frames < self._loaded
        if there.all():
            if len(frames) == len(members.view):
                return matrix.view  # all of them: no copy
            return matrix.view[np.searchsorted(members.view, frames)]
        numbers = np.full((len(frames), wide), np.nan)
        numbers[there] = matrix.view[np.searchsorted(members.view, frames[there])]
        return numbers

    def blank(self, frame: int) -> None:
        """Leave out what was in the tail of a frame; its numbers remain."""
        found = dict(self.notes.get(frame, {}))
        for field in self.fields.get(int(self["layout"][frame]), []):
            reason, flags = found.get(field.index, (None, 0))
            if node.size(field.value)[1] and not flags & NO_VALUE:
                reason, flags = DAMAGED, flags | NO_VALUE
            if node.size(field.details)[1]:
                flags |= NO_DETAILS
            found[field.index] = reason, flags
        self.notes[frame] = found

    def of(self, frame: int) -> Iterator[tuple[Field, tuple[str | None, int]]]:
        """The records of a frame: what they are, with the reason and the flags of their note."""
        found = self.notes.get(frame, {})
        for field in self.fields[int(self["layout"][frame])]:
            yield field, found.get(field.index, (None, 0))


def _fits(numbers: bytes, end: int) -> bool:
    """Whether these can be the numbers of steps in a row up to this one."""
    return bool(numbers) and len(numbers) % 8 == 0 and len(numbers) // 8 <= end + 1


def _doubled(places: Rows) -> list[int]:
    found, counts = np.unique(places, return_counts=True)
    doubled: list[int] = found[counts > 1].tolist()
    return doubled
