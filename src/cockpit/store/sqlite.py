"""The log as an SQLite database, the default: its tables, and the writing side.

The file is only ever opened through SQLite: closing a second descriptor of it would drop SQLite's locks (POSIX).
SQLite itself does not notice a changed byte, so every row carries a checksum.
"""

import ctypes
import json
import re
import secrets
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from cockpit.store.backend import Foreign, Kept
from cockpit.store.item import Attempt, Frame, Item, Layout, Meta

NAME = "run.db"
APPLICATION, FORMAT = 0x434B5054, 2  # "CKPT"
TOGETHER = 64  # frames inserted by one statement, which may have 999 variables in older versions of SQLite
MARK = 8  # bits of the version that hold the format; above them a number by which a log knows its file
CHECKED = 1 << 28  # bytes; a larger file is not read as a whole before it is continued
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE attempts (id INTEGER PRIMARY KEY, first_step INTEGER NOT NULL, started REAL NOT NULL, reached INTEGER,
    lost INTEGER NOT NULL, state TEXT, reason TEXT, frames INTEGER, crc INTEGER NOT NULL);
CREATE TABLE layouts (id INTEGER PRIMARY KEY, layout TEXT NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE frames (id INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, step INTEGER NOT NULL, layout INTEGER NOT NULL,
    time REAL NOT NULL, crc INTEGER NOT NULL, notes TEXT, numbers BLOB NOT NULL, tail BLOB);
"""
TABLES = {
    name.encode(): re.sub(r"\s+", " ", text).encode()
    for text, name in re.findall(r"(CREATE TABLE (\w+) .+?);", SCHEMA, re.DOTALL)
}


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
        found = identify(self._connection, self.path)
        if found is not None and self.path.stat().st_size < CHECKED:
            (verdict,) = ask("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise Foreign(f"{self.path} is damaged: {verdict}")
        if ask("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise OSError(f"{self.path}: the file system does not allow what SQLite needs")
        ask("PRAGMA synchronous=NORMAL")
        if found is None:
            version = FORMAT | secrets.randbelow(1 << 22) << MARK
            script = f"PRAGMA application_id={APPLICATION};\nPRAGMA user_version={version};\n{SCHEMA}"
            self._connection.executescript(f"BEGIN IMMEDIATE;\n{script}COMMIT;")
        attempts = [attempt(row) for row in ask("SELECT * FROM attempts ORDER BY id")]
        if None in attempts:
            raise Foreign(f"{self.path} is damaged: the checksum of an attempt does not match")
        (layouts,) = ask("SELECT coalesce(max(id), 0) FROM layouts").fetchone()
        (version,) = ask("PRAGMA user_version").fetchone()
        self._branding = f"PRAGMA user_version={version}"  # so that every write-ahead log says which file it belongs to
        self._anchored = False
        self._frames, last = ask("SELECT coalesce(max(id), 0), max(step) FROM frames").fetchone()
        return Kept([found for found in attempts if found is not None], layouts + 1, last)

    def write(self, items: Sequence[Item]) -> None:
        """Write all items or none."""
        ask, frames = self._connection.execute, [item for item in items if isinstance(item, Frame)]
        rows = [_row(frame, place) for place, frame in enumerate(frames, self._frames + 1)]
        ask("BEGIN IMMEDIATE")
        try:
            ask(self._branding)
            for item in items:
                if not isinstance(item, Frame):
                    for statement, row in _statements(item):
                        ask(statement, row)
            for begin in range(0, len(rows), TOGETHER):
                some = rows[begin : begin + TOGETHER]
                ask(_insertion(len(some)), tuple(chain.from_iterable(some)))
            ask("COMMIT")
            self._frames += len(rows)
            self._anchor()
        except BaseException:
            if self._connection.in_transaction:
                ask("ROLLBACK")
            raise

    def _anchor(self) -> None:
        """Put the first items into the file itself: by them it is known whose the write-ahead log beside it is."""
        if not self._anchored:
            self._anchored = True
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Let go of the file; the write-ahead log is folded into it."""
        self._connection.close()

    def forget(self) -> None:
        """In a forked child: never touch the connection again, not even to close it."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


@lru_cache(maxsize=TOGETHER)
def _insertion(rows: int) -> str:
    """Insert many frames at once: each call of SQLite stops and starts the thread, which delays training."""
    return f"INSERT INTO frames VALUES {', '.join(['(?, ?, ?, ?, ?, ?, ?, ?, ?)'] * rows)}"


def _row(frame: Frame, place: int) -> tuple[Any, ...]:
    attempt, step, layout, time, numbers, notes, tail = frame
    size, text = None if tail is None else len(tail), None if notes is None else notes.encode()
    crc = frame_crc(place, attempt, step, layout, time, size, text, numbers)
    return place, attempt, step, layout, time, crc, notes, numbers, tail


def _statements(item: Meta | Attempt | Layout) -> Iterator[tuple[str, tuple[Any, ...]]]:
    match item:
        case Layout():
            yield "INSERT INTO layouts VALUES (?, ?, ?)", (item.id, item.text, text_crc(item.id, item.text.encode()))
        case Attempt():
            entries = astuple(item)
            yield f"INSERT OR REPLACE INTO attempts VALUES (?{', ?' * len(entries)})", (*entries, _attempt_crc(entries))
        case Meta():
            for key, value in item.texts.items():
                yield "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, value, text_crc(key, value.encode()))


def frame_crc(
    row: int, attempt: int, step: int, layout: int, time: float, size: int | None, notes: bytes | None, numbers: bytes
) -> int:
    """Checksum of a frame with the length of its tail, which has a checksum of its own: it need not be read here."""
    head = b"%d %d %d %d %s %s " % (row, attempt, step, layout, repr(time).encode(), str(size).encode())
    return zlib.crc32(numbers, zlib.crc32(head if notes is None else head + notes))


def text_crc(key: int | str, text: bytes) -> int:
    """Checksum of a text and what it is called."""
    return zlib.crc32(text, zlib.crc32(str(key).encode()))


def _attempt_crc(row: Sequence[Any]) -> int:
    return zlib.crc32(json.dumps(row).encode())


def attempt(row: Sequence[Any]) -> Attempt | None:
    """Read a row of the table of attempts; None if it is damaged."""
    try:
        values: list[Any] = [value.decode() if isinstance(value, bytes) else value for value in row]
        crc = values.pop()
        names = [field.name for field in fields(Attempt)]
        return Attempt.of(dict(zip(names, values, strict=True))) if _attempt_crc(values) == crc else None
    except (ValueError, TypeError):
        return None


def identify(connection: sqlite3.Connection, path: Path) -> int | None:
    """Version of the file, its format and its mark; None if nothing is in it yet; raises if it is none of ours."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and version == 0 and tables == 0:
        if 0 < path.stat().st_size < 512:
            raise Foreign(f"{NAME} is a file of another program: this is not a cockpit run")
        return None
    if application != APPLICATION:
        raise Foreign(f"{NAME} is a database of another program: this is not a cockpit run")
    found = version & (1 << MARK) - 1
    if found != FORMAT:
        remedy = "update cockpit-deck" if found > FORMAT else "it is older than the first release"
        raise Foreign(f"{NAME} has format {found}, this version of cockpit knows {FORMAT}: {remedy}")
    _only_tables(connection)
    return int(version)


def _only_tables(connection: sqlite3.Connection) -> None:
    """The tables are those of the schema: a view or a computed column would run whatever it says when it is read."""
    there = {}
    for kind, table, text in connection.execute("SELECT type, tbl_name, sql FROM sqlite_master LIMIT 100"):
        kind, table, text = (part.encode() if isinstance(part, str) else part for part in (kind, table, text))
        if table in TABLES:
            there[table] = (
                kind == b"table" and re.sub(rb"\s+", b" ", text or b"") == TABLES[table] and table not in there
            )
    for table in TABLES:
        if not there.get(table):
            raise Foreign(f"{NAME}: {table.decode()} is not the table that cockpit makes; it was changed or is damaged")
