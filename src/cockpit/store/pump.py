"""The writing thread: takes records from the queue, packs them, writes them; trouble never reaches the training."""

import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from cockpit.core.record import Record
from cockpit.store import metadata
from cockpit.store.backend import UNCLOSED, Log
from cockpit.store.item import Attempt, Frame, Item, Layout, Meta
from cockpit.store.layout import Packer
from cockpit.store.lock import Lock, Pulse, host
from cockpit.store.queue import Entry, Queue

log = logging.getLogger("cockpit")
UNCLOSED_END = "ended", UNCLOSED
INTERVAL = 0.2  # seconds between two writes
BEAT = 1.0  # seconds between two pulses
SLOWEST = 5.0  # seconds between two tries when the disk does not take anything
PATIENCE = 5.0  # seconds that closing may take
LAST = 3  # tries at the end, when the disk or the memory refuses
GIT = 1.0  # seconds of them
REASON = 2000  # characters
ABANDONED = 0.3  # seconds for which a run that nobody holds any more still takes records
TROUBLE = (OSError, sqlite3.Error, MemoryError)  # may pass


class Pump:
    """Everything behind a writer that must outlive it: a writer that nobody holds any more is still flushed."""

    def __init__(self, folder: Path, attempt: Attempt, file: Log, lock: Lock, began: float) -> None:
        self.folder, self.queue = folder, Queue()
        self.problem: str | None = None
        self.step: int | None = None
        self._attempt, self._file, self._lock, self._began = attempt, file, lock, began
        self._packer = Packer(attempt.id, file.kept.next_layout)
        self._identity = _identity(file.path)
        self._batches: deque[list[Item]] = deque()  # packed, each to be written as a whole
        self._metadata: deque[Meta] = deque()
        self._git: threading.Thread | None = None
        self._end: tuple[str, str | None] | None = None
        self.meanwhile: Callable[[], bool] | None = None  #: gives records that nobody brings; True: ask again soon
        self.count: Callable[[], int | None] | None = None  #: the step that training has come to
        self._taken: deque[Entry] = deque()  # from the queue, not packed yet
        self._abandoned = False
        self._wake, self._closing = threading.Event(), threading.Event()
        self._delay = INTERVAL
        self._told = self._frames = 0
        self._beaten = 0.0
        self._thread = threading.Thread(target=self._run, name="cockpit-store", daemon=True)

    def start(self, git: str | None) -> None:
        """Begin to write; ``git``: the directory whose repository is asked first."""
        self._beat()
        self._thread.start()
        if git is not None:  # apart, because a large repository answers slowly
            self._git = threading.Thread(target=self._ask_git, args=(git,), name="cockpit-git", daemon=True)
            self._git.start()

    def _ask_git(self, directory: str) -> None:
        self.update({"git": metadata.git(directory)})

    # ---- called by the training thread

    def wake(self) -> None:
        """Say that there is something to write."""
        if not self._wake.is_set():
            self._wake.set()

    def update(self, values: dict[str, Any]) -> None:
        """Merge into the metadata."""
        self._metadata.append(Meta.of(values))
        self.wake()

    def close(self, state: str, reason: str | None, wait: bool = True) -> None:
        """Flush and end; the first call decides the state."""
        if self._end is None:
            self._end = state, reason and reason[:REASON].encode("utf-8", "backslashreplace").decode()
        self._closing.set()
        self._wake.set()
        if wait and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                log.warning("%s: the disk is too slow, %d records are not written yet", self.folder, len(self.queue))

    def abandon(self) -> None:
        """Nobody holds the run any more: what is on its way is still written."""
        self._abandoned = True
        self.close(*UNCLOSED_END, wait=False)

    @property
    def running(self) -> bool:
        """Whether the thread still has something to do."""
        return self._thread.is_alive()

    def forget(self) -> None:
        """In a forked child: the run belongs to the parent, and a thread that is not here may have held any lock."""
        self.queue.forget()
        self._wake, self._closing = threading.Event(), threading.Event()
        self._file.forget()
        self._lock.close()

    # ---- the thread

    def _run(self) -> None:
        try:
            while self._identity is not None and not self._bearing(self._turned):
                pass
        except Exception as error:  # a fault of ours: say it, and leave the training alone
            self._stop(f"writing the run to {self.folder} ended: {type(error).__name__}: {error}")
            log.warning("%s", self.problem, exc_info=True)
        finally:
            self._finish()

    def _bearing(self, work: Callable[[], Any]) -> Any:
        """Do it, and bear a lack of memory: the training may need it all for a moment."""
        for last in (*[False] * (LAST - 1), True):
            try:
                return work()
            except MemoryError:
                if last and self._closing.is_set():
                    raise
            self._closing.wait(INTERVAL)
        return None  # and try again

    def _turned(self) -> bool:
        """Write what is there, and wait for more; True when it is over."""
        closing = self._closing.is_set()
        if closing and self._git is not None:
            self._git.join(GIT)
        if closing and self._abandoned:
            time.sleep(ABANDONED)
        for _ in range(LAST if closing else 1):
            self._bring()
            if self.problem is None or not closing:
                break
            time.sleep(INTERVAL)
        if closing:
            return True
        if time.monotonic() - self._beaten >= BEAT:
            self._beat()
        self._closing.wait(self._delay)
        self._wake.wait(BEAT)
        self._wake.clear()
        return False

    def _bring(self) -> None:
        try:
            if self.meanwhile is not None and self.meanwhile():
                self._wake.set()
            self._flush()
        except MemoryError as error:  # the training may need it all for a moment
            self._refused(error)

    def _flush(self) -> None:
        """Write until nothing waits, or until the disk refuses."""
        while True:
            if not self._batches:
                self._batches.extend(self._pack())
            if self._gone() or not self._batches:
                return
            frames = sum(isinstance(item, Frame) for item in self._batches[0])
            try:
                self._file.write(self._batches[0])
            except TROUBLE as error:
                return self._refused(error)
            except Exception as error:  # a number that does not fit, or the like
                self._sort_out(self._batches.popleft(), error)
                continue
            self._batches.popleft()
            self._frames += frames
            self._accepted()

    def _sort_out(self, items: list[Item], error: Exception) -> None:
        """Find the one that does not fit: it must not take the others with it."""
        if len(items) > 1:
            self._batches.extendleft([item] for item in reversed(items))
            return
        if isinstance(items[0], Layout):  # nobody could read what is written with it
            useless = [
                batch for batch in self._batches if isinstance(batch[0], Frame) and batch[0].layout == items[0].id
            ]
            self._batches = deque(batch for batch in self._batches if batch not in useless)
            items = [item for batch in useless for item in batch]
            self._packer = self._packer.again()
        self._drop(self._packer.records(items), error)

    def _pack(self) -> list[list[Item]]:
        items: list[Item] = [self._metadata[place] for place in range(len(self._metadata))]
        told = len(items)
        if not self._taken:
            self._taken.extend(self.queue.take())
        while self._taken:
            try:
                items.extend(self._packed(self._taken[0].records, self._taken[0].time))
            except MemoryError:
                if not items:
                    raise
                break  # what is packed can be written meanwhile
            self._taken.popleft()
        for _ in range(told):
            self._metadata.popleft()
        return [items] if items else []

    def _packed(self, records: Sequence[Record], time: float) -> list[Item]:
        try:
            return self._packer.pack(records, time)
        except MemoryError:
            self._packer = self._packer.again()
            raise
        except Exception as error:  # a value that nobody thought of
            self._packer = self._packer.again()  # layouts of what was packed before it will not be written
            if len(records) == 1:
                self._drop(1, error)
                return []
        return [item for record in records for item in self._packed([record], time)]

    def _drop(self, records: int, error: Exception) -> None:
        self.queue.lose(records)
        self._told += records
        log.warning("%s: %d records cannot be stored: %s: %s", self.folder, records, type(error).__name__, error)

    def _gone(self) -> bool:
        if _identity(self._file.path) == self._identity:
            return False
        self._stop(f"{self.folder} was deleted or replaced while the run was written; nothing more is written")
        log.warning("%s. Training goes on; keep the folder, or start the run anew to record it", self.problem)
        return True

    def _stop(self, problem: str) -> None:
        self.problem, self._identity = problem, None
        self._lose()
        self.queue.close()

    def _lose(self) -> None:
        """What is packed will not be written."""
        self.queue.lose(sum(map(self._packer.records, self._batches)))
        self.queue.lose(sum(len(entry.records) for entry in self._taken))
        self._batches.clear()
        self._taken.clear()

    def _refused(self, error: Exception) -> None:
        self._delay = min(SLOWEST, 2 * self._delay)
        if self.problem is None:
            self.problem = f"cannot write the run to {self.folder}: {str(error) or type(error).__name__}"
            log.warning(
                "%s. Training goes on, records wait in memory and are lost when too many wait: "
                "free disk space, or make the folder writable again",
                self.problem,
            )

    def _accepted(self) -> None:
        self._delay = INTERVAL
        if self.problem is not None:
            self.problem = None
            log.warning("writing the run to %s works again; %s", self.folder, self._loss())
        elif self.queue.lost > self._told:
            log.warning("%s: the disk is too slow; %s", self.folder, self._loss())
        if self.queue.lost > self._told:
            self._told = self.queue.lost

    def _loss(self) -> str:
        return f"{self.queue.lost or 'no'} record{'s were' if self.queue.lost > 1 else ' was'} lost"

    def _beat(self, state: str | None = None, reason: str | None = None) -> None:
        self._beaten = time.monotonic()
        self._look()
        who = self._attempt.id, os.getpid(), host(), time.time()
        pulse = Pulse(*who, self.step, self.queue.lost, state, reason, self._frames, self._began)
        with suppress(OSError):  # the disk's trouble is told where records are written
            self._lock.beat(pulse)

    def _look(self) -> None:
        count = None if self.count is None else self.count()
        self.step = self.step if count is None else count

    def _finish(self) -> None:
        with suppress(MemoryError):
            self._bearing(self._sign_off)
        try:
            self._file.close()
        except Exception as error:
            log.warning("%s: %s", self._file.path, error)
        self._lock.close()

    def _sign_off(self) -> None:
        """Say how the run ended."""
        self._look()
        state, reason = self._end or ("crashed", self.problem)
        self._lose()
        self.queue.close()
        if self.queue.lost > self._told or self.problem is not None:
            log.warning("%s is closed; %s", self.folder, self._loss())
        if self._identity is None:
            return
        end = replace(self._attempt, reached=self.step, lost=self.queue.lost, state=state, reason=reason)
        end = replace(end, frames=self._frames)
        try:
            self._file.write([end])
        except MemoryError:
            raise
        except Exception:
            pass  # the pulse below says it as well
        with suppress(OSError, sqlite3.Error):
            self._beat(state, reason)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
