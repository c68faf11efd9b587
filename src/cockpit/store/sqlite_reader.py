"""The log as an SQLite database: the reading side."""

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from cockpit.core import reading
from cockpit.store import tail
from cockpit.store.backend import Foreign, Head, Signature
from cockpit.store.item import Entry, Layout, News
from cockpit.store.sqlite import NAME, attempt, frame_crc, identify, text_crc
from cockpit.store.sqlite_access import Access, Deadline, Late, code

AT_ONCE = 500  # rows in one question
FARTHEST = 1 << 32  # rows behind damaged ones
ENTRIES, ATTEMPTS = 10_000, 2000  # of the metadata, and openings of the folder, that are read at most
LONGEST = 16 << 20  # bytes of an entry, a layout or a note
CHUNK = 1 << 20  # bytes of a tail that are in memory while it is checked
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)
Row = TypeVar("Row")


class Disorder(sqlite3.DatabaseError):
    """Rows do not come in the order of their keys: pages point back to earlier ones, perhaps for ever."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


@dataclass(frozen=True, slots=True)
class Place:
    """How far a reader has read, and how many rows it had to pass over."""

    frame: int = 0
    layout: int = 0
    passed: int = 0
    holes: int = 0  # damaged pages, each with many rows


class SqliteReader:
    """Reads what is new; the place of a frame is its row."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._access, self._place = Access(self.path), Place()

    def signature(self) -> Signature:
        """Changes whenever something was written."""
        return self._access.signature()

    def news(self, growing: bool = False) -> News:
        """Read what came since the last call."""
        self._access.owned = growing
        try:
            scan = self._access.ask(self._scan)
        except Foreign as error:
            return News(damage=str(error))
        except Late:
            return News(damage=f"{NAME}: {_late(self._access.deadline)}")
        except sqlite3.Error as error:
            note = ": this is not a cockpit run, or its beginning is damaged" if code(error) == DAMAGED[1] else ""
            return News(damage=f"{NAME}: {error}{note}")
        except OSError as error:
            return News(damage=f"{NAME}: {error.strerror or error}")
        self._place = scan.place
        if self._access.short:
            scan.gaps.insert(0, "pages are missing at the end")
        if self._access.aside is not None:
            scan.gaps.insert(0, self._access.aside)
        scan.news.gap = f"{NAME}: {'; '.join(dict.fromkeys(scan.gaps))}" if scan.gaps else None
        return scan.news

    def _scan(self, connection: sqlite3.Connection) -> "Scan":
        scan = Scan(connection, self._place, self._access.deadline)
        if identify(connection, self.path) is not None:
            scan.read()
        return scan

    def numbers(self, places: Sequence[int]) -> Iterator[tuple[int, Head, bytes]]:
        """Read the numbers of frames, and whose they are; those that are damaged are left out."""
        return iter(self._access.ask(lambda connection: list(_each(connection, places, _numbers))))

    def tails(self, places: Sequence[int]) -> Iterator[tuple[int, bytes | None]]:
        """Read the tails of frames, empty where one cannot be read."""
        found = dict(self._access.ask(lambda connection: list(_each(connection, places, _tails))))
        return ((place, found.get(place, b"")) for place in places)

    def unsound(self, places: Sequence[int]) -> list[int]:
        """Of these frames, in their order, those whose tail is damaged."""
        sound = set(self._access.ask(lambda connection: list(_each(connection, places, _sound))))
        return [place for place in places if place not in sound]


class Scan:
    """One look at all tables, in one state of the database."""

    def __init__(self, connection: sqlite3.Connection, place: Place, deadline: Deadline) -> None:
        self.place, self.news, self.gaps = place, News(), list[str]()
        self._ask, self._limit, self._deadline = connection.execute, connection.setlimit, deadline

    def read(self) -> None:
        """Read table by table; one that is damaged does not keep the others from being read."""
        self._ask("BEGIN")
        self._limit(sqlite3.SQLITE_LIMIT_LENGTH, min(self._limit(sqlite3.SQLITE_LIMIT_LENGTH, -1), LONGEST))
        for table, part in (
            ("meta", self._meta),
            ("attempts", self._attempts),
            ("layouts", self._layouts),
            ("frames", self._frames),
        ):
            try:
                part()
            except Late:
                self.news.damage = f"{NAME}: {_late(self._deadline)}"
            except sqlite3.DatabaseError as error:
                if code(error) in DAMAGED:
                    self.gaps.append(f"the table {table}: {error}")
                elif code(error) == sqlite3.SQLITE_INTERRUPT:
                    self.news.damage = f"{NAME}: {_late(self._deadline)}"
                else:
                    self.news.damage = f"{NAME}: {error}"
        place = self.place
        if place.passed or place.holes:
            pages = f"{place.holes} ranges of rows" if place.holes else ""
            rows = f"{place.passed} rows" if place.passed else ""
            self.gaps.append(f"{' and '.join(filter(None, (pages, rows)))} are damaged")

    def _in_order(self, rows: Iterator[tuple[Any, ...]], most: int = FARTHEST, last: Any = None) -> Iterator[Any]:
        """Rows whose keys ascend, as those of a table do: a damaged one may give the same rows again and again."""
        for number, row in enumerate(rows):
            if number >= most:
                raise Disorder(f"it has more than {most} rows")
            try:
                ascends = last is None or row[0] > last
            except TypeError:
                ascends = False
            if not ascends:
                raise Disorder("its rows are out of order")
            if number % AT_ONCE == 0:
                self._deadline.check()
            last = row[0]
            yield row

    def _meta(self) -> None:
        keys = [key for (key,) in self._in_order(self._ask("SELECT key FROM meta ORDER BY key"), ENTRIES)]
        for key in keys:  # one by one: a value that is too long costs only itself
            try:
                value, crc = self._ask("SELECT value, crc FROM meta WHERE key = CAST(? AS TEXT)", (key,)).fetchone()
                if text_crc(key.decode(), value) != crc:
                    raise ValueError
                self.news.meta[key.decode()] = reading.parsed(value)
            except reading.Refused as error:
                self.news.refused[key.decode()] = str(error)
            except sqlite3.DataError:
                self.news.refused[key.decode(errors="replace")] = f"it has more than {LONGEST >> 20} MiB"
            except (ValueError, TypeError, AttributeError):
                name = repr(key.decode(errors="replace")) if isinstance(key, bytes) else "of unknown name"
                self.gaps.append(f"the metadata {name} are damaged")

    def _attempts(self) -> None:
        for row in self._in_order(self._ask("SELECT * FROM attempts ORDER BY id"), ATTEMPTS):
            found = attempt(row)
            if found is not None:
                self.news.attempts.append(found)
            else:
                self.gaps.append(f"attempt {row[0]} is damaged")

    def _layouts(self) -> None:
        before = self.place.layout
        rows = self._ask("SELECT * FROM layouts WHERE id > ? ORDER BY id", (before,))
        for number, text, crc in self._in_order(rows, last=before):
            self.place = replace(self.place, layout=number)
            if isinstance(text, bytes) and text_crc(number, text) == crc:
                self.news.layouts.append(Layout(number, text.decode()))
            else:
                self.place = replace(self.place, passed=self.place.passed + 1)

    def _frames(self) -> None:
        """Where pages are damaged go on behind them: farther and farther, then back to the damaged ones."""
        last, far = self.place.frame, 0
        try:
            while far < FARTHEST:
                self._deadline.check()
                try:
                    for row in self._in_order(self._rows(last + far, FARTHEST << 16, "ASC"), last=last + far):
                        if far:
                            self._back(last, row[0])
                        self._take(row)
                        last, far = row[0], 0
                    break
                except sqlite3.DatabaseError as error:
                    if code(error) not in DAMAGED:
                        raise
                    self.place = replace(self.place, holes=self.place.holes + (far == 0))
                    far = 2 * far + 1
        finally:
            self.place = replace(self.place, frame=last)

    def _rows(self, after: int, before: int, order: str) -> Iterator[tuple[Any, ...]]:
        columns = "id, attempt, step, layout, time, notes"
        question = f"SELECT {columns} FROM frames WHERE id > ? AND id < ? ORDER BY id {order}"
        return self._ask(question, (after, before))

    def _back(self, after: int, before: int) -> None:
        found: list[tuple[Any, ...]] = []
        try:
            for row in self._rows(after, before, "DESC"):
                if found and not row[0] < found[-1][0]:
                    raise Disorder("its rows are out of order")
                found.append(row)
        except sqlite3.DatabaseError as error:
            if code(error) not in DAMAGED:
                raise
        for row in reversed(found):
            self._take(row)

    def _take(self, row: tuple[Any, ...]) -> None:
        """Take a row over; where a page was overwritten SQLite may give rows of nothing."""
        *head, notes = row
        try:
            entry = Entry._make((*head, notes if notes is None else notes.decode()))
            if not entry.sound:
                raise ValueError
            self.news.entries.append(entry)
        except (ValueError, AttributeError):
            self.place = replace(self.place, passed=self.place.passed + 1)


def _each(
    connection: sqlite3.Connection,
    places: Sequence[int],
    question: Callable[[sqlite3.Connection, Sequence[int]], list[Row]],
) -> Iterator[Row]:
    """Ask for many rows at once; where something is damaged for each one alone."""
    for begin in range(0, len(places), AT_ONCE):
        some = places[begin : begin + AT_ONCE]
        try:
            yield from question(connection, some)
        except sqlite3.DatabaseError as error:
            if code(error) not in DAMAGED:
                raise
            yield from _one_by_one(connection, some, question)


def _one_by_one(
    connection: sqlite3.Connection,
    places: Sequence[int],
    question: Callable[[sqlite3.Connection, Sequence[int]], list[Row]],
) -> Iterator[Row]:
    for place in places:
        try:
            yield from question(connection, [place])
        except sqlite3.DatabaseError as error:
            if code(error) not in DAMAGED:
                raise


def _select(connection: sqlite3.Connection, columns: str, places: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    marks = ",".join("?" * len(places))
    return connection.execute(f"SELECT {columns} FROM frames WHERE id IN ({marks}) ORDER BY id", places)


def _numbers(connection: sqlite3.Connection, places: Sequence[int]) -> list[tuple[int, Head, bytes]]:
    rows = _select(connection, "crc, id, attempt, step, layout, time, length(tail), notes, numbers", places)
    return [(what[0], (what[1], what[2], what[3]), what[-1]) for crc, *what in rows if _undamaged(crc, what)]


def _undamaged(crc: object, what: Sequence[Any]) -> bool:
    try:
        return frame_crc(*what) == crc
    except (ValueError, TypeError):
        return False


def _tails(connection: sqlite3.Connection, places: Sequence[int]) -> list[tuple[int, bytes | None]]:
    rows = _select(connection, "id, tail", places)
    return [(place, found if found is None or isinstance(found, bytes) else b"") for place, found in rows]


def _sound(connection: sqlite3.Connection, places: Sequence[int]) -> list[int]:
    """Those whose tails are as they were written; a large one is never in memory as a whole."""
    columns = f"id, typeof(tail), CASE WHEN length(tail) <= {CHUNK} THEN tail END"
    found, large = [], []
    for place, kind, small in _select(connection, columns, places):
        if kind == b"blob" and small is None:
            large.append(place)
        elif kind == b"null" or (kind == b"blob" and tail.sound(small)):
            found.append(place)
    return sorted(found + [place for place in large if _checked(connection, place)])


def _checked(connection: sqlite3.Connection, place: int) -> bool:
    with connection.blobopen("frames", "tail", place, readonly=True) as blob:
        (crc,) = tail.LENGTH.unpack(blob.read(tail.LENGTH.size))
        found = 0
        while part := blob.read(CHUNK):
            found = zlib.crc32(part, found)
    return bool(found == crc)


def _late(deadline: Deadline) -> str:
    return f"reading it takes longer than {deadline.seconds:.0f} seconds: it is damaged, or the disk is very slow"
