"""A watched run on disk: which folder, the weights it started from, and what tracking costs as it goes on."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor

from cockpit.core.ledger import WHOLE
from cockpit.store import Writer, create
from cockpit.store.writer import how_it_ends
from cockpit.tracking.explain import cost, explain
from cockpit.tracking.tracker import Tracker

log = logging.getLogger("cockpit")

START = "start.pt"  # the weights that Distance counts from
START_BYTES = 256 * 2**20  # larger models do not get one
BOOKED = 2.0  # seconds from one note of the costs to the next


class Recording:
    """Writes the records of a tracker into a run folder."""

    def __init__(self, folder: Path, metadata: dict[str, Any], tracker: Tracker, first_step: int, resume: bool) -> None:
        self._writer: Writer = create(folder, metadata, first_step, resume)
        self._tracker, self._first, self._began, self._booked = tracker, first_step, time.perf_counter(), 0.0
        self._next_look = 1  # tracked steps at which the coverage is described anew
        self._opened = self._writer.problem is None
        tracker.journal.sink = self._writer
        if tracker.start and self._opened:
            self._keep_start()

    @property
    def folder(self) -> Path | None:
        """Where the run lies; None if it could not be opened for writing."""
        return self._writer.folder if self._opened else None

    def attend(self, count: Callable[[], int | None]) -> None:
        """Write a step that is over also where none follows; ``count`` gives the step that training has come to."""
        meanwhile = WeakMethod(self._tracker.meanwhile)
        self._writer.attend(lambda: (call := meanwhile()) is not None and call(), count)
        if self._tracker.ticks is not None:
            self._tracker.ticks.wake = self._writer.expect

    def reached(self, step: int) -> None:
        """Training has come to this step."""
        self._writer.step = step
        self._writer.expect()

    def book(self) -> None:
        """After a tracked step: note what tracking costs, now and then."""
        now = time.perf_counter()
        if now - self._booked >= BOOKED:
            self._booked = now
            self._writer.update(cost=self._cost())
        if self._tracker.coverage.counts.get(WHOLE, 0) >= self._next_look:
            self._next_look *= 8
            self._writer.update(coverage=explain(self._tracker))

    def close(self, error: BaseException | None = None, closed: bool = True) -> None:
        """End the run; an error is its reason. ``closed``: the user did it, or left ``with``."""
        self._writer.update(cost=self._cost(), coverage=explain(self._tracker))
        if not closed:
            self._writer.close(*how_it_ends())
        elif error is None or (isinstance(error, SystemExit) and not error.code):
            self._writer.close("finished")
        else:
            self._writer.close("crashed", f"{type(error).__name__}: {error}".rstrip(": "))

    def _cost(self) -> dict[str, Any]:
        return {**cost(self._tracker), "elapsed": time.perf_counter() - self._began}

    # ---- the weights at the start: a continued run measures its distance from them

    def _keep_start(self) -> None:
        path = self._writer.folder / START
        try:
            if self._first > 0 and path.is_file():
                self._restore(torch.load(path, map_location="cpu", weights_only=True))
                return
            if self._first > 0:
                log.warning("%s is not there; Distance counts from step %d", path, self._first)
            if sum(theta.nbytes for theta in self._tracker.start.values()) <= START_BYTES:
                part = path.with_suffix(".part")
                torch.save({name: theta.cpu() for name, theta in self._tracker.start.items()}, part)
                part.replace(path)
        except Exception as error:  # a full disk, a foreign file: the distance then counts from here
            log.warning(
                "%s: the starting weights could not be kept or read (%s); Distance counts from here", path, error
            )

    def _restore(self, kept: dict[str, Tensor]) -> None:
        for name, theta in self._tracker.start.items():
            if name in kept and kept[name].shape == theta.shape:
                theta.copy_(kept[name])
            else:
                log.warning(
                    "%s has no starting weights from the earlier part of the run; Distance counts from here", name
                )
