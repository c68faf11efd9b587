"""What a run's folder holds, kept up to date: frames, metadata, attempts, and whether anybody still writes."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from cockpit.core.errors import CockpitError
from cockpit.core.source import Series
from cockpit.store import framed, known, lock, sqlite, sqlite_reader
from cockpit.store.backend import UNCLOSED, Reader, Signature
from cockpit.store.columns import Columns
from cockpit.store.item import STATES, Attempt, News

TOLD = 5  # entries of the metadata that are named
PATIENCE = 10  # times as long as a failed reading took, until the next
READERS: dict[str, type[sqlite_reader.SqliteReader] | type[framed.FramedReader]] = {
    sqlite.NAME: sqlite_reader.SqliteReader,
    framed.NAME: framed.FramedReader,
}


def holds_run(folder: Path) -> bool:
    """Whether there is a run in this folder."""
    return _reader(folder) is not None


def _reader(folder: Path) -> Reader | None:
    for name, kind in READERS.items():
        try:
            if os.path.lexists(folder / name):
                return kind(folder)
        except (OSError, ValueError):  # not allowed to look, or no path at all
            continue
    return None


class Contents:
    """A folder as it was at the last :meth:`refresh`."""

    def __init__(self, folder: Path) -> None:
        found = _reader(folder)
        if found is None:
            names = " or ".join(READERS)
            raise CockpitError(f"{folder} holds no run: there is no {names} in it; give the folder of a run")
        self.folder, self.reader, self.columns = folder, found, Columns()
        self.meta: dict[str, Any] = {}
        self.state: str = "crashed"
        self.reason: str | None = UNCLOSED
        self.problem: str | None = None
        self.pulse: lock.Pulse | None = None
        self._attempts: dict[int, Attempt] = {}
        self._counts: Counter[int] = Counter()  # frames of each attempt
        self._signature: Signature | None = None
        self._growing, self._again, self._due = True, False, 0.0
        self._refused: dict[str, str] = {}  # entries of the metadata that cannot be used, and why
        self._gap: str | None = None
        self._torn: str | None = None
        self._spoiled: set[int] = set()  # frames
        self._tailless: set[int] = set()
        self._checked = 0  # frames whose tails were checked

    def refresh(self) -> bool:
        """Read what came since the last call; whether there was anything."""
        before, new = self._seen(), False
        for _ in range(2):
            alive = self._look()  # before the data: what was written before it is then seen
            new |= self._read(alive is not False)
            if self._is_strays():
                alive = lock.alive(self.folder, None)
            if self.pulse is None or self.pulse.attempt >= self._last:
                break  # else a new attempt began in between
        self.state, self.reason = self._judge(alive)
        return new or before != self._seen()

    def _seen(self) -> tuple[object, ...]:
        reached = self.pulse.reached if self.pulse is not None else None
        return self.state, self.reason, reached, self.damaged

    @property
    def _last(self) -> int:
        return max(self._attempts, default=0)

    def _look(self) -> bool | None:
        """Read the pulse; whether somebody writes, None if that is not known."""
        self.pulse = lock.pulse(self.folder) or self.pulse
        if self.pulse is not None and self.pulse.state is not None and self.pulse.attempt >= self._last:
            return False
        alive = lock.alive(self.folder, self.pulse)
        if alive is False:
            self.pulse = lock.pulse(self.folder) or self.pulse  # it may have been closed just now
        return alive

    def _is_strays(self) -> bool:
        """Whether the pulse belongs to another run, whose lock was copied here; it is then ignored."""
        first = self._attempts.get(1)
        if first is None or self.pulse is None or self.pulse.began in (None, first.started):
            return False
        self.pulse = None
        self._gap = self._gap or f"{lock.NAME} belongs to another run, and is left aside"
        return True

    def _read(self, growing: bool) -> bool:
        signature = self.reader.signature()
        if (
            signature == self._signature
            and growing == self._growing
            and not (self._again and self._due < time.monotonic())
        ):
            return False
        replaced = self._signature is not None and _replaced(self._signature[0], signature[0])
        if replaced:
            pulse = self.pulse
            self.__init__(self.folder)  # type: ignore[misc]
            self.pulse = pulse
        self._signature, self._growing = signature, growing
        begin = time.monotonic()
        try:
            news = self.reader.news(growing)
        except Exception as error:  # whatever lies there, it is the trouble of this run alone
            news = News(damage=f"{self.reader.path.name}: {type(error).__name__}: {error}")
        self._again = news.waiting or news.damage is not None  # perhaps only for the moment
        took = time.monotonic() - begin
        self._due = begin + PATIENCE * took if news.damage is not None and took > 0.1 else 0.0
        return self._take(news) or replaced

    def _take(self, news: News) -> bool:
        attempts = {attempt.id: attempt for attempt in news.attempts}
        new = bool(news.entries or news.layouts) or self._attempts | attempts != self._attempts
        misfits = {
            key: "it is not what cockpit writes" for key, value in news.meta.items() if not known.fits(key, value)
        }
        meta = {key: value for key, value in news.meta.items() if key not in misfits}
        if "name" in meta:
            meta["name"] = known.shortened(meta["name"])
        self._refused |= news.refused | misfits
        new |= self.meta | meta != self.meta
        self.problem, self._torn = news.damage, news.torn
        self._gap = news.gap or self._gap
        self.meta |= meta
        self._attempts |= attempts
        self._counts.update(entry.attempt for entry in news.entries)
        self.spoil(self.columns.add(news.layouts, news.entries))
        return new

    def _judge(self, alive: bool | None) -> tuple[str, str | None]:
        """Closed, alive, silent, or gone; a folder on another machine's disk only its pulse can tell about."""
        closed = self._closed()
        if closed is not None and not self.nothing:
            return closed
        if self.nothing and alive is not True:
            return "unreadable", self.problem or self._gap
        if alive is False:
            return "crashed", UNCLOSED
        age = lock.age(self.folder / lock.NAME, self.pulse)
        return ("running", None) if age <= lock.STALE else ("stale", f"no sign of life for {age:.0f} seconds")

    @property
    def nothing(self) -> bool:
        """Whether something lies here of which nothing can be read."""
        return not (self._attempts or self.meta or len(self.columns)) and bool(self.problem or self._gap)

    def _closed(self) -> tuple[str, str | None] | None:
        last, pulse = self._last, self.pulse
        if pulse is not None and pulse.attempt >= last:
            if pulse.state is not None:
                return pulse.state, pulse.reason
            if pulse.attempt > last:
                return None
        attempt = self._attempts.get(last)
        return (attempt.state, attempt.reason) if attempt is not None and attempt.state is not None else None

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts; the last one with what its pulse tells."""
        found = [self._attempts[number] for number in sorted(self._attempts)]
        pulse = self.pulse
        if found and pulse is not None and pulse.attempt == found[-1].id and found[-1].state is None:
            found[-1] = replace(found[-1], reached=pulse.reached, lost=pulse.lost)
        if found and found[-1].state is None and self.state in STATES:
            found[-1] = replace(found[-1], state=self.state, reason=self.reason)
        return found

    @property
    def reached(self) -> int | None:
        """The step that the last attempt has reached, by what it says or by its records; None if neither is known."""
        attempts = self.attempts
        if not attempts:
            return None
        own = self.columns["step"][self.columns["attempt"] == attempts[-1].id].tolist()
        return max(own + [step for step in [attempts[-1].reached] if step is not None], default=None)

    @property
    def metadata(self) -> dict[str, Any]:
        """What was written, and the attempts and the number of records lost."""
        attempts = self.attempts
        told = [asdict(attempt) for attempt in attempts]
        return self.meta | {"attempts": told, "lost": sum(attempt.lost for attempt in attempts)}

    @property
    def updated(self) -> float:
        """Time of the last record or pulse."""
        started = [attempt.started for attempt in self._attempts.values()]
        pulse = [self.pulse.time] if self.pulse is not None else []
        return max([*self.columns.times[-1:].tolist(), *pulse, *started], default=0.0)

    @property
    def damaged(self) -> str | None:
        """What could not be read, of what was looked at."""
        bad = len(self._spoiled | self._tailless)
        spoiled = f"{bad} record{'s are' if bad > 1 else ' is'} damaged and left out" if bad else None
        torn = self._torn if self.state != "running" else None
        refused = [f"the metadata {key!r} cannot be used: {why}" for key, why in self._refused.items()][:TOLD]
        return "; ".join(filter(None, (self.problem, self._gap, *refused, spoiled, torn, self._missing()))) or None

    def _missing(self) -> str | None:
        """What was written, by its writer's own count, and is not there."""
        if self.problem is not None:  # not all was read
            return None
        pulse, name = self.pulse, self.reader.path.name
        written = {attempt.id: attempt.frames or 0 for attempt in self._attempts.values()}
        if pulse is not None and self.state != "running":  # a file server may show the pulse before the data
            written[pulse.attempt] = max(written.get(pulse.attempt, 0), pulse.frames or 0)
        lacking = sum(max(0, count - self._counts[attempt]) for attempt, count in written.items())
        if lacking:
            there = self._counts.total()
            return f"{name}: {there + lacking} records were written, {there} are there"
        if pulse is not None and pulse.state is not None and pulse.attempt > self._last and not self._gap:
            return f"{name}: the last attempt is missing"
        return None

    def spoil(self, frames: Iterable[int]) -> None:
        """Leave frames out that turned out to be damaged."""
        self._spoiled.update(frames)

    def blank(self, frames: Iterable[int]) -> bool:
        """Leave out the tails of frames that turned out to be damaged; whether any is new."""
        fresh = set(frames) - self._tailless
        for frame in fresh:
            self.columns.blank(frame)
        self._tailless |= fresh
        return bool(fresh)

    def check(self) -> bool:
        """Check the tails of the frames that are new; whether any is damaged."""
        first, self._checked = self._checked, len(self.columns)
        places = self.columns["place"][first:]
        if not len(places):
            return False
        try:
            bad = self.reader.unsound(places.tolist())
        except BaseException:
            self._checked = first
            raise
        return self.blank((first + np.flatnonzero(np.isin(places, bad))).tolist())

    def visible(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which frames count."""
        seen = self.columns.visible(self.attempts)
        seen[list(self._spoiled)] = False
        return seen

    def course(self, name: str) -> Series:
        """The numbers of a name that came for many steps at a time."""
        return self.columns.course(name, self.attempts)

    def tails(self, frames: list[int]) -> Iterator[tuple[int, bytes | None]]:
        """Read the tails of frames; those that cannot be read are left out."""
        places = self.columns["place"][frames].tolist()
        known = dict(zip(places, frames, strict=True))
        for place, found in self.reader.tails(places):
            yield known[place], found


def _replaced(before: Any, now: Any) -> bool:
    """Another file, or one that has shrunk; SQLite and the store's own file only ever grow."""
    return before is not None and now is not None and (before[:2] != now[:2] or now[2] < before[2])
