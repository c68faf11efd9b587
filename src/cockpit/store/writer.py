"""``Writer``: what the training process holds of its run's folder."""

import atexit
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cockpit.core.record import Record
from cockpit.store import metadata
from cockpit.store.backend import UNCLOSED, Foreign, Kept
from cockpit.store.item import Attempt, Item, Meta
from cockpit.store.lock import Busy, Pulse
from cockpit.store.opening import open_folder
from cockpit.store.pump import Pump

log = logging.getLogger("cockpit")
_pumps: set[Pump] = set()


class Writer:
    """Writes a run's records from another thread; nothing that happens to the disk stops the training."""

    def __init__(self, folder: Path, pump: Pump | None, problem: str | None = None) -> None:
        self.folder = folder
        self._pump, self._problem, self._dropped = pump, problem, 0

    def __del__(self) -> None:
        if self._pump is not None and not sys.is_finalizing():
            self._pump.abandon()

    def append(self, records: Sequence[Record]) -> None:
        """Queue records; they must not be changed afterwards."""
        if self._pump is None:
            self._dropped += len(records)
        elif records:
            self._pump.queue.put(records)
            self._pump.wake()

    @property
    def step(self) -> int | None:
        """The number of the step that the training has come to, tracked or not: all steps below it are done.

        After step 14 it is 15. In a continued run the steps below it are no longer shown from earlier attempts.
        """
        return self._pump.step if self._pump is not None else None

    @step.setter
    def step(self, step: int) -> None:
        if self._pump is not None:
            self._pump.step = step

    @property
    def lost(self) -> int:
        """Number of records that are lost so far."""
        return self._dropped if self._pump is None else self._pump.queue.lost

    @property
    def problem(self) -> str | None:
        """Why nothing is written at the moment."""
        return self._problem if self._pump is None else self._pump.problem

    def attend(self, meanwhile: Callable[[], bool], count: Callable[[], int | None]) -> None:
        """Ask for records that nobody brings, and for the step that training has come to; both in another thread."""
        if self._pump is not None:
            self._pump.meanwhile, self._pump.count = meanwhile, count

    def expect(self) -> None:
        """A record is on its way, which the writing thread is to ask for."""
        if self._pump is not None:
            self._pump.wake()

    def update(self, **values: Any) -> None:
        """Merge into the metadata of the run."""
        if self._pump is not None:
            self._pump.update(values)

    def close(self, state: str = "finished", reason: str | None = None) -> None:
        """Write what waits and end the run as ``"finished"`` or ``"crashed"``; closing twice is fine."""
        if self._pump is not None and self._pump in _pumps:
            self._pump.close(state, reason)
            _pumps.discard(self._pump)

    def __repr__(self) -> str:
        return f"<cockpit.store.Writer of {self.folder}{': ' + self.problem if self.problem else ''}>"


def create(
    folder: str | Path, metadata: Mapping[str, Any] | None = None, first_step: int = 0, resume: bool = True
) -> Writer:
    """Open a run's folder for writing, new or to be continued; trouble with the disk is told, not raised.

    A folder that another process writes to, or whose file is foreign or damaged, is left alone: the run goes to a
    folder beside it, ``<name>-2``. So is one that holds a run, unless that is to be resumed.
    """
    folder = Path(folder)
    try:
        pump = _start(folder.absolute(), dict(metadata or {}), first_step, resume)
    except (OSError, ValueError, sqlite3.Error, Busy, Foreign, RuntimeError) as error:
        problem = f"cannot write the run to {folder}: {error}"
        log.warning("%s. Training goes on, but nothing is recorded: choose a folder that can be written to", problem)
        return Writer(folder, None, problem)
    return Writer(pump.folder, pump)


def _start(wanted: Path, given: dict[str, Any], first_step: int, resume: bool) -> Pump:
    found = open_folder(wanted, first_step, resume)
    folder, file = found.folder, found.file
    try:
        known = {"name": folder.name} | metadata.collect() | given
        past = _past(file.kept, found.lock.found)
        attempt = Attempt(max((old.id for old in past), default=0) + 1, first_step, time.time())
        items: list[Item] = [*(old for old in past if old not in file.kept.attempts), attempt, Meta.of(known)]
        file.write(items)
        _tell(folder, file.kept, first_step)
        pump = Pump(
            folder, attempt, file, found.lock, began=min((old.started for old in past), default=attempt.started)
        )
        pump.start(None if "git" in known else known.get("directory"))
    except BaseException:
        found.abandon()
        raise
    _pumps.difference_update([done for done in _pumps if not done.running])
    _pumps.add(pump)
    return pump


def _past(kept: Kept, pulse: Pulse | None) -> list[Attempt]:
    """The attempts so far; the last one closed by what its pulse tells, if its process did not do it."""
    past = list(kept.attempts)
    last = past[-1].id if past else 0
    if past and past[-1].state is None:
        past[-1] = replace(past[-1], state="crashed", reason=UNCLOSED)
    if pulse is None or pulse.attempt < last:
        return past
    if pulse.attempt > last:  # the file has lost it: what was in it stays known to be missing
        past.append(Attempt(pulse.attempt, pulse.reached or 0, pulse.time))
    elif kept.attempts[-1].state is not None:
        return past
    end = (pulse.state, pulse.reason) if pulse.state is not None else ("crashed", UNCLOSED)
    past[-1] = replace(past[-1], reached=pulse.reached, lost=pulse.lost, frames=pulse.frames)
    past[-1] = replace(past[-1], state=end[0], reason=end[1])
    return past


def _tell(folder: Path, kept: Kept, first_step: int) -> None:
    if kept.last_step is None:
        return
    if first_step == 0:
        text = "%s holds a run up to step %d; it begins again at step 0, and the earlier records are no longer shown"
        log.warning(text, folder, kept.last_step)
    else:
        text = "continuing the run in %s, recorded up to step %d, from step %d"
        log.info(text, folder, kept.last_step, first_step)


def how_it_ends() -> tuple[str, str | None]:
    """How the process ends: crashed if an exception went through, unless somebody types at a prompt."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None or hasattr(sys, "ps1") or sys.flags.interactive:
        return "ended", UNCLOSED
    return "crashed", f"{UNCLOSED}: {type(error).__name__}: {error}".removesuffix(": ")


@atexit.register
def _at_exit() -> None:
    for wait in (False, True):  # all at once, then one after the other
        for pump in list(_pumps):
            pump.close(*how_it_ends(), wait=wait)


def _in_child() -> None:
    for pump in _pumps:
        pump.forget()
    _pumps.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
