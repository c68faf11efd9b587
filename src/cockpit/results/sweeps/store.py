"""The results of a sweep in one SQLite file: each committed once, with all that is known of it, or not at all."""

import json
import os
import shutil
import sqlite3
import tempfile
import time
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.plan import SweepPlan, read

NAME = "sweep.db"
Values = NDArray[np.float64]
STATES = ("finished", "diverged", "failed")
WAIT = 60.0  # seconds for another process that has the file
_TABLES = """
CREATE TABLE result(
    id TEXT PRIMARY KEY, problem TEXT NOT NULL, optimizer TEXT NOT NULL, hyperparameters TEXT NOT NULL,
    schedule TEXT NOT NULL, seed INT NOT NULL, identity TEXT NOT NULL, state TEXT NOT NULL, validation REAL,
    metrics TEXT NOT NULL, curves BLOB NOT NULL, epochs INT NOT NULL, diverged INT, message TEXT, trace TEXT,
    attempts INT NOT NULL, machine INT NOT NULL, seconds REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE machine(id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE);
CREATE TABLE plan(id INTEGER PRIMARY KEY, json TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE lease(id TEXT PRIMARY KEY, worker INT NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;
"""
_COLUMNS = (
    *("id", "problem", "optimizer", "hyperparameters", "schedule", "seed", "identity", "state", "validation"),
    *("metrics", "curves", "epochs", "diverged", "message", "trace", "attempts", "machine", "seconds"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A run that came to an end, as it is stored."""

    id: str
    identity: Mapping[str, Any]
    state: str
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)  # all of one length, after 0, 1, 2 ... epochs
    diverged: int | None = None  # the epoch in which the loss stopped being finite
    message: str | None = None  # of a failure
    trace: str | None = None
    attempts: int = 1
    machine: Mapping[str, Any] = field(default_factory=dict)  # where it was trained
    seconds: float = 0.0

    @property
    def validation(self) -> float | None:
        """The value that settings are chosen by."""
        curve = self.curves.get("valid_accuracy") or self.curves.get("valid_loss")
        return float(curve[-1]) if curve else None


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a result at a glance."""

    state: str
    validation: float | None
    seconds: float
    machine: int


class Store:
    """The file of a sweep; whoever writes holds the folder's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / NAME
        if not self.path.is_file():
            raise CockpitError(
                f"{folder} holds no sweep ({NAME} is missing); give a study file, or the folder of a sweep"
            )

    # ---- reading

    def rows(self) -> dict[str, Row]:
        """All results, without their curves."""
        with self._reading() as db:
            return {
                row[0]: Row(*row[1:])
                for row in db.execute("SELECT id, state, validation, seconds, machine FROM result")
            }

    def plan(self) -> SweepPlan:
        """The plan of the last sweep."""
        with self._reading() as db:
            row = db.execute("SELECT json FROM plan ORDER BY id DESC LIMIT 1").fetchone()
        if row is None:
            raise CockpitError(f"{self.path} has no plan; run its study file again")
        return read(json.loads(row[0]))

    def arrays(self, ids: Iterable[str]) -> dict[str, dict[str, Values]]:
        """The curves of these results, by metric."""
        question = "SELECT id, metrics, curves FROM result WHERE id IN (SELECT value FROM json_each(?))"
        with self._reading() as db:
            rows = db.execute(question, (json.dumps(list(set(ids))),)).fetchall()
        return {id: _unpacked(*row) for id, *row in rows}

    def curves(self, ids: Iterable[str]) -> dict[str, dict[str, list[float]]]:
        """The curves of these results, by metric, as lists."""
        return {id: _listed(curves) for id, curves in self.arrays(ids).items()}

    def records(self, ids: Iterable[str] | None = None, state: str | None = None) -> Iterator[dict[str, Any]]:
        """Everything about these results (all, if none are named), as plain data, curves by metric."""
        with self._reading() as db:
            asked = f"SELECT {', '.join(_COLUMNS)} FROM result WHERE state = coalesce(?, state)"
            if ids is None:
                rows = db.execute(asked, (state,)).fetchall()
            else:
                rows = [row for id in ids for row in db.execute(f"{asked} AND id = ?", (state, id))]
        for row in rows:
            known = dict(zip(_COLUMNS, row, strict=True))
            known["curves"] = _listed(_unpacked(known.pop("metrics"), known["curves"]))
            yield known | {name: json.loads(known[name]) for name in ("hyperparameters", "identity")}

    def machines(self) -> dict[int, dict[str, Any]]:
        """What is known of the machines, by number."""
        with self._reading() as db:
            return {row[0]: json.loads(row[1]) for row in db.execute("SELECT id, json FROM machine")}

    def leased(self) -> tuple[int, int]:
        """How many runs were with how many workers when the sweep last wrote."""
        with self._reading() as db:
            runs, workers = db.execute("SELECT count(*), count(DISTINCT worker) FROM lease").fetchone()
        return int(runs), int(workers)

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return self.path.stat().st_size

    # ---- writing

    def keep(self, plan: SweepPlan) -> bool:
        """Make this the plan of the last sweep; returns whether it differs from the one before."""
        text = json.dumps(plan.plain())  # in order: a space is drawn from in the order of its keys
        with self._writing() as db:
            last = db.execute("SELECT json FROM plan ORDER BY id DESC LIMIT 1").fetchone()
            if last is not None and last[0] == text:
                return False
            db.execute("INSERT INTO plan(json, created) VALUES (?, ?)", (text, time.time()))
        return True

    def commit(self, entries: Sequence[Entry], leases: Mapping[str, int] | None = None) -> int:
        """Add results in one transaction, and say which runs are with which worker now; returns how many were new.

        A result that is there stays, unless it is that of a failure.
        """
        added = 0
        with self._writing() as db:
            for entry in entries:
                added += db.execute(_UPSERT, _packed(entry, _machine(db, entry.machine))).rowcount
            if leases is not None:
                db.execute("DELETE FROM lease")
                db.executemany("INSERT INTO lease VALUES (?, ?)", leases.items())
        return added

    # ---- connections

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _saying(self.path), closing(self._opened()) as db:
            yield db

    def _opened(self) -> sqlite3.Connection:
        """A connection that has read; to a copy, where a killed writer's journal lies in a folder that is read-only."""
        db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=WAIT)
        try:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return db
        except sqlite3.OperationalError:
            db.close()
        spare = Path(tempfile.mkdtemp(prefix="cockpit-"))
        weakref.finalize(self, shutil.rmtree, spare, ignore_errors=True)
        for part in self.folder.glob(f"{NAME}*"):
            shutil.copyfile(part, spare / part.name)
        return sqlite3.connect(spare / NAME)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with _saying(self.path), closing(sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


_UPSERT = (
    f"INSERT INTO result({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    f"ON CONFLICT(id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[1:])} "
    "WHERE result.state = 'failed'"
)


def create(folder: Path, plan: SweepPlan) -> Store:
    """Make the store of a new sweep: it appears with its plan, or not at all; one that is there is opened."""
    if (folder / NAME).is_file():
        return Store(folder)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise CockpitError(f"{folder} is there, and holds no sweep; choose another place with --out")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _swept(folder)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".part", dir=folder.parent))
        try:
            part.chmod(0o777 & ~_umask())
            with _saying(part), closing(sqlite3.connect(part / NAME)) as db:
                db.executescript(_TABLES)
            Store(part).keep(plan)
            _settled(part)
            os.replace(part, folder)
        except OSError:
            if not (folder / NAME).is_file():  # nobody else has made it meanwhile
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise CockpitError(
            f"{folder} cannot be written: {error.strerror or error}; choose another place with --out"
        ) from error
    return Store(folder)


def _swept(folder: Path) -> None:
    """Remove what killed processes left half made."""
    for part in folder.parent.glob(f".{folder.name}-*.part"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > WAIT:
                shutil.rmtree(part, ignore_errors=True)


def _settled(folder: Path) -> None:
    """Wait until the disk has a folder's entries."""
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _saying(path: Path) -> Iterator[None]:
    """Say in one sentence what keeps a file from being read or written."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise CockpitError(
                f"{path}: the disk is full; what was committed is kept, make room and sweep again"
            ) from error
        raise CockpitError(f"{path} cannot be read or written: {error}") from error


def _machine(db: sqlite3.Connection, machine: Mapping[str, Any]) -> int:
    text = json.dumps(dict(machine), sort_keys=True)
    db.execute("INSERT OR IGNORE INTO machine(json) VALUES (?)", (text,))
    return int(db.execute("SELECT id FROM machine WHERE json = ?", (text,)).fetchone()[0])


def _packed(entry: Entry, machine: int) -> tuple[Any, ...]:
    known, curves = entry.identity, entry.curves
    numbers = np.array([curves[metric] for metric in curves], dtype="<f8")
    return (
        *(entry.id, known["problem"], known["optimizer"], json.dumps(known["hyperparameters"])),
        *(known["schedule"], known["seed"], json.dumps(known), entry.state, entry.validation),
        *(json.dumps(list(curves)), zlib.compress(numbers.tobytes()), known["epochs"], entry.diverged),
        *(entry.message, entry.trace, entry.attempts, machine, entry.seconds),
    )


def _unpacked(metrics: str, curves: bytes) -> dict[str, Values]:
    names = _names(metrics)
    values = np.frombuffer(zlib.decompress(curves), dtype="<f8")
    return dict(zip(names, values.reshape(len(names), -1), strict=True)) if names else {}


@lru_cache(1000)
def _names(metrics: str) -> tuple[str, ...]:
    return tuple(json.loads(metrics))


def _listed(curves: Mapping[str, Values]) -> dict[str, list[float]]:
    return {metric: values.tolist() for metric, values in curves.items()}
