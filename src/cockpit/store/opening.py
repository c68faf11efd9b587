"""Open a folder for writing; if that fails nothing stays behind that was not there before."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cockpit.core.reading import odd_kind
from cockpit.store import framed, lock, sqlite, sqlite_access
from cockpit.store.backend import Foreign, Log
from cockpit.store.contents import Contents, holds_run
from cockpit.store.filesystem import choose, wish
from cockpit.store.lock import Busy, Lock

log = logging.getLogger("cockpit")
TROUBLE = (OSError, sqlite3.Error)
LOGS: dict[str, type[sqlite.SqliteLog] | type[framed.FramedLog]] = {
    "sqlite": sqlite.SqliteLog,
    "file": framed.FramedLog,
}
FILES = (framed.NAME, *(sqlite.NAME + ending for ending in ("", "-wal", "-shm", "-journal")), lock.NAME)


@dataclass(frozen=True, slots=True)
class Opened:
    """A folder that is ours to write to."""

    folder: Path
    lock: Lock
    file: Log
    new: "NewPaths"

    def abandon(self) -> None:
        """Let go of it, and leave it as it was found."""
        with suppress(*TROUBLE):
            self.file.close()
        self.new.remove()
        self.lock.close()
        self.new.leave()


class NewPaths:
    """Which files and folders were not there before."""

    def __init__(self, folder: Path) -> None:
        self._folders = [path for path in (folder, *folder.parents) if not path.exists()]
        self._files = [path for name in FILES if not (path := folder / name).exists()]

    def remove(self) -> None:
        """Remove the files; only by who holds the lock, or could not make it."""
        for path in self._files:
            with suppress(OSError):
                path.unlink()

    def leave(self) -> None:
        """Remove the folders, as far as nothing else is in them."""
        for path in self._folders:
            with suppress(OSError):
                os.rmdir(path)


def open_folder(wanted: Path, first_step: int, resume: bool = True) -> Opened:
    """Take the folder, or one beside it if it is in use, holds something foreign, or a run that is not resumed."""
    wish()
    reason, level = "", logging.INFO
    for folder in _candidates(wanted):
        if folder != wanted and (first_step == 0 or not resume) and holds_run(folder):
            continue  # nobody asked to continue that one
        if not resume and _holds_records(folder):
            reason = f"{folder} holds a run already"
            continue
        try:
            found = _take(folder)
        except Busy as error:
            reason, level = reason or f"{folder} is being written by {error}", logging.WARNING
            continue
        except Foreign as error:
            reason, level = reason or f"{folder}: {error}", logging.WARNING
            continue
        if reason:
            log.log(level, "%s; this run goes to %s", reason, folder)
        return found
    raise Busy(reason)


def _holds_records(folder: Path) -> bool:
    """Whether a run lies there that would be hidden by one that begins anew; one without a record is not missed."""
    if not holds_run(folder):
        return False
    contents = Contents(folder)
    contents.refresh()
    return len(contents.columns) > 0 and contents.state not in ("running", "unreadable")  # these are told when opened


def _take(folder: Path) -> Opened:
    new = NewPaths(folder)
    held = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _only_files(folder)
        held = Lock(folder)
        _nothing_foreign(folder)
        if not holds_run(folder):
            held.clear()  # of a run that was deleted
        return Opened(folder, held, LOGS[choose(folder)](folder), new)
    except BaseException as error:
        if held is not None:
            new.remove()
            held.close()
        if not isinstance(error, Busy):
            new.leave()
        raise


def _only_files(folder: Path) -> None:
    """A pipe or a device is not opened: to read from it may take for ever."""
    for name in FILES:
        kind = odd_kind(folder / name)
        if kind is not None:
            raise Foreign(f"{name} is {kind}, not a file")


def _nothing_foreign(folder: Path) -> None:
    """What lies beside the database would be folded into it: another run's write-ahead log, or a foreign journal."""
    access = sqlite_access.Access(folder / sqlite.NAME)
    if (aside := access.foreign()) is not None:
        raise Foreign(aside)


def _candidates(folder: Path) -> Iterator[Path]:
    yield folder
    for number in range(2, 100):
        yield folder.with_name(f"{folder.name}-{number}")
