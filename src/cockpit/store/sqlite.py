"""The log as an SQLite database: the default.

The file is only ever opened through SQLite: closing a second descriptor of it would drop SQLite's locks (POSIX).
"""

import ctypes
import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from cockpit.store.backend import Foreign, Kept, Signature, stamp
from cockpit.store.item import Attempt, Entry, Frame, Item, Layout, Meta, News

NAME = "run.db"
APPLICATION, FORMAT = 0x434B5054, 1  # "CKPT"
CHECKED = 1 << 28  # bytes; a larger file is not read as a whole before it is continued
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE attempts (id INTEGER PRIMARY KEY, first_step INTEGER NOT NULL, started REAL NOT NULL, reached INTEGER,
    lost INTEGER NOT NULL, state TEXT, reason TEXT);
CREATE TABLE layouts (id INTEGER PRIMARY KEY, layout TEXT NOT NULL);
CREATE TABLE frames (id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, step INTEGER NOT NULL, layout INTEGER NOT NULL,
    time REAL NOT NULL, crc INTEGER NOT NULL, notes TEXT, numbers BLOB NOT NULL, tail BLOB);
"""


class SqliteLog:
    """The writing side: one connection, one transaction for each call of :meth:`write`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._connection = sqlite3.connect(self.path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            self.kept = self._prepare()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.DatabaseError) and type(error) is sqlite3.DatabaseError:
                raise Foreign(f"{self.path} cannot be continued: {error}") from error
            raise

    def _prepare(self) -> Kept:
        ask = self._connection.execute
        found = _identify(self._connection, self.path)
        if found is not None and self.path.stat().st_size < CHECKED:
            (verdict,) = ask("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise Foreign(f"{self.path} is damaged: {verdict}")
        if ask("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise OSError(f"{self.path}: the file system does not allow what SQLite needs")
        ask("PRAGMA synchronous=NORMAL")
        if found is None:
            script = f"PRAGMA application_id={APPLICATION};\nPRAGMA user_version={FORMAT};\n{SCHEMA}"
            self._connection.executescript(f"BEGIN IMMEDIATE;\n{script}COMMIT;")
        attempts = [Attempt(*row) for row in ask("SELECT * FROM attempts ORDER BY id")]
        (layouts,) = ask("SELECT coalesce(max(id), 0) FROM layouts").fetchone()
        frames, last = ask("SELECT count(*), max(step) FROM frames").fetchone()
        return Kept(attempts, layouts + 1, frames, last)

    def write(self, items: Sequence[Item]) -> None:
        """Write all items or none."""
        ask = self._connection.execute
        ask("BEGIN IMMEDIATE")
        try:
            for item in items:
                for statement, row in _statements(item):
                    ask(statement, row)
            ask("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                ask("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the file; the write-ahead log is folded into it."""
        self._connection.close()

    def forget(self) -> None:
        """In a forked child: never touch the connection again, not even to close it."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


def _statements(item: Item) -> Iterator[tuple[str, tuple[Any, ...]]]:
    match item:
        case Frame():
            crc = _crc(item.attempt, item.step, item.layout, item.notes, item.numbers)
            row = (item.attempt, item.step, item.layout, item.time, crc, item.notes, item.numbers, item.tail)
            columns = "attempt, step, layout, time, crc, notes, numbers, tail"
            yield f"INSERT INTO frames ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
        case Layout():
            yield "INSERT INTO layouts VALUES (?, ?)", (item.id, item.text)
        case Attempt():
            yield "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)", astuple(item)
        case Meta():
            for entry in item.texts.items():
                yield "INSERT OR REPLACE INTO meta VALUES (?, ?)", entry


def _crc(attempt: int, step: int, layout: int, notes: str | None, numbers: bytes) -> int:
    return zlib.crc32(numbers, zlib.crc32(f"{attempt} {step} {layout} {notes}".encode()))


def _identify(connection: sqlite3.Connection, path: Path) -> int | None:
    """Format of the file, None if there is nothing in it yet; raises if it is none of ours."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and version == 0 and tables == 0:
        if 0 < path.stat().st_size < 512:
            raise Foreign(f"{NAME} is a file of another program")
        return None
    if application != APPLICATION:
        raise Foreign(f"{NAME} is a database of another program")
    if version > FORMAT:
        raise Foreign(f"{NAME} has format {version}, this version of cockpit knows {FORMAT}: update cockpit-deck")
    return int(version)


class SqliteReader:
    """The reading side: a short connection for each question, so that nothing is held open or locked."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._last = 0
        self._layout = 0

    def signature(self) -> Signature:
        """Changes whenever something was written."""
        return stamp(self.path), stamp(self.path.with_name(NAME + "-wal"))

    def _connect(self) -> sqlite3.Connection:
        """A closed run in a folder without write access opens only as immutable.

        Never so with a write-ahead log beside it, whose records would be missing.
        """
        address = self.path.absolute().as_uri()
        connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=2, check_same_thread=False)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError as error:
            connection.close()
            barred = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if not barred or self.path.with_name(NAME + "-wal").exists():
                raise
            connection = sqlite3.connect(f"{address}?immutable=1", uri=True, check_same_thread=False)
        except BaseException:
            connection.close()
            raise
        return connection

    def news(self) -> News:
        """Read what came since the last call."""
        news = News({}, [], [], [])
        try:
            with closing(self._connect()) as connection:
                if _identify(connection, self.path) is not None:
                    connection.execute("BEGIN")  # one state of the database for all questions
                    self._read(connection.execute, news)
        except Foreign as error:
            news.damage = str(error)
        except sqlite3.Error as error:
            news.damage = f"{NAME}: {error}"
        return news

    def _read(self, ask: Any, news: News) -> None:
        """Read table by table; one that is damaged does not keep the others from being read."""
        for part in (self._read_meta, self._read_attempts, self._read_layouts, self._read_frames):
            try:
                part(ask, news)
            except (sqlite3.DatabaseError, ValueError) as error:
                news.damage = f"{NAME}: {error}"

    def _read_meta(self, ask: Any, news: News) -> None:
        news.meta.update((key, json.loads(value)) for key, value in ask("SELECT key, value FROM meta"))

    def _read_attempts(self, ask: Any, news: News) -> None:
        for row in ask("SELECT * FROM attempts ORDER BY id"):
            news.attempts.append(Attempt(*_typed(row, int, int, float)))

    def _read_layouts(self, ask: Any, news: News) -> None:
        for row in ask("SELECT id, layout FROM layouts WHERE id > ? ORDER BY id", (self._layout,)):
            news.layouts.append(Layout(*_typed(row, int, str)))
            self._layout = row[0]

    def _read_frames(self, ask: Any, news: News) -> None:
        columns = "id, attempt, step, layout, time, notes"
        for row in ask(f"SELECT {columns} FROM frames WHERE id > ? ORDER BY id", (self._last,)):
            news.entries.append(Entry._make(_typed(row, int, int, int, int, float)))
            self._last = row[0]

    def numbers(self, places: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Read the numbers of frames; those that are damaged are left out."""
        with closing(self._connect()) as connection:
            for begin in range(0, len(places), 500):
                some = places[begin : begin + 500]
                try:
                    yield from _numbers(connection, some)
                except sqlite3.DatabaseError:  # something in there is damaged: one by one
                    for place in some:
                        with suppress(sqlite3.DatabaseError):
                            yield from _numbers(connection, [place])

    def tails(self, places: Sequence[int]) -> Iterator[tuple[int, bytes | None]]:
        """Read the tails of frames."""
        with closing(self._connect()) as connection:
            for place in places:
                yield from connection.execute("SELECT id, tail FROM frames WHERE id = ?", (place,))


def _typed(row: tuple[Any, ...], *types: type) -> tuple[Any, ...]:
    """Where a page was overwritten SQLite may give rows of nothing."""
    if tuple(map(type, row[: len(types)])) != types:
        raise ValueError("a row is damaged; those after it cannot be read")
    return row


def _numbers(connection: sqlite3.Connection, places: Sequence[int]) -> list[tuple[int, bytes]]:
    marks = ",".join("?" * len(places))
    columns = "id, numbers, crc, attempt, step, layout, notes"
    rows = connection.execute(f"SELECT {columns} FROM frames WHERE id IN ({marks}) ORDER BY id", places)
    return [
        (place, numbers)
        for place, numbers, crc, attempt, step, layout, notes in rows
        if isinstance(numbers, bytes) and _crc(attempt, step, layout, notes, numbers) == crc
    ]
