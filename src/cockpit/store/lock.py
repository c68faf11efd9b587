"""One writer for each folder: a lock that the system drops when its process ends; in its file the writer's pulse."""

import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from cockpit.core import reading
from cockpit.core.shape import maybe, moment, text, whole
from cockpit.store.item import ends

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

NAME = "run.lock"
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
PULSE = 1024  # bytes; written in place, so that it works on a full disk too
PATIENCE = 0.3  # seconds; a reader that looks whether the lock is free holds it for a moment
STALE = 30.0  # seconds without a pulse
FAR = 1 << 30  # on Windows locked bytes cannot be read: lock one far behind the pulse


class Busy(Exception):
    """Another process writes into the folder."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The last sign of life of a writer."""

    attempt: int
    pid: int
    host: str
    time: float
    reached: int | None = None
    lost: int = 0
    state: str | None = None
    reason: str | None = None
    frames: int | None = None  # written before this pulse; a reader that sees fewer misses some
    began: float | None = None  # when the run's first attempt began: which run it belongs to

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read one; ``ValueError`` if it is not what a writer writes."""
        found = cls(**values)
        numbers = whole(found.attempt) and whole(found.pid) and whole(found.lost)
        others = _whole(found.reached) and _whole(found.frames) and _moment(found.began)
        if not (numbers and others and _host(found.host) and moment(found.time) and ends(found.state, found.reason)):
            raise ValueError("no pulse")
        return found


_whole, _moment, _host = maybe(whole), maybe(moment), text(64)


class Lock:
    """Held for the life of a writer."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._file = os.open(self.path, FLAGS, 0o666)
        self.found = _read(self._file)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            free = _try(self._file, exclusive=True)
            if free is None:  # no locks here: the pulse decides
                free = self.found is None or self.found.state is not None or age(self.path, self.found) > STALE
            if free and not self._deleted():
                self.found = _read(self._file)
                return
            if free:
                self.close()
                self._file = os.open(self.path, FLAGS, 0o666)
            if time.monotonic() > end:
                raise Busy(f"process {self.found.pid} on {self.found.host}" if self.found else "another process")
            time.sleep(0.02)

    def _deleted(self) -> bool:
        """Whether the file was removed while we waited: its lock then keeps nobody out."""
        try:
            return not os.path.samestat(os.fstat(self._file), os.stat(self.path))
        except OSError:
            return True

    def beat(self, pulse: Pulse) -> None:
        """Leave a sign of life."""
        found = asdict(pulse)
        for limit in (400, 100, 0):
            found["reason"] = found["reason"] and found["reason"][:limit]
            text = json.dumps(found).encode()
            if len(text) <= PULSE:
                break
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, text.ljust(PULSE))

    def clear(self) -> None:
        """Forget the pulse of a run that is no longer there."""
        self.found = None
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, b" " * PULSE)

    def close(self) -> None:
        """Give the lock back; also what a forked child does with its copy."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def pulse(folder: Path) -> Pulse | None:
    """Read the pulse of a folder's last writer."""
    try:
        file = reading.opened(folder / NAME)
    except (OSError, reading.Refused):
        return None
    try:
        return _read(file)
    finally:
        os.close(file)


def age(path: Path, pulse: Pulse | None) -> float:
    """Seconds since the last pulse; the clock of a file server may differ from the writer's."""
    beaten = pulse.time if pulse is not None else 0.0
    try:
        return time.time() - max(beaten, path.stat().st_mtime)
    except OSError:
        return time.time() - beaten


def alive(folder: Path, pulse: Pulse | None) -> bool | None:
    """Whether a writer holds the lock; None if the lock does not say it. One that just began has no pulse yet."""
    if pulse is not None and pulse.host != host():
        return None
    try:
        file = reading.opened(folder / NAME)
    except reading.Refused:
        return False  # no writer makes such a lock
    except OSError:
        return False if pulse is None else None
    try:
        free = _try(file, exclusive=False)
        return None if free is None else not free
    finally:
        os.close(file)


def host() -> str:
    """Name of this machine."""
    return socket.gethostname()[:64]


def _read(file: int) -> Pulse | None:
    try:
        os.lseek(file, 0, os.SEEK_SET)
        return Pulse.of(reading.parsed(os.read(file, PULSE)))
    except (OSError, ValueError, TypeError):
        return None


def _try(file: int, exclusive: bool) -> bool | None:
    """Whether the lock was free; None where locks do not work."""
    try:
        if sys.platform == "win32":
            os.lseek(file, FAR, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True
