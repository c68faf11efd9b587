"""Where runs are trained: the contract of all engines, and the one that works in this process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cockpit.bench.sweep.making import Context
from cockpit.bench.sweep.places import their_words
from cockpit.bench.sweep.work import Worker
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.store import Entry

INCOMPLETE = 3  # exit code of a sweep that has ended too early


@dataclass(frozen=True, slots=True)
class Parcel:
    """Runs that are handed to a worker together."""

    number: int
    specs: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class News:
    """What is known of a parcel: some of its runs have ended, all of it is over, or its worker has died."""

    number: int
    entries: tuple[Entry, ...] = ()
    over: bool = False
    died: str | None = None  # of what
    epochs: tuple[int, int] | None = None  # of its run: trained, and in all


class Engine(Protocol):
    """Workers, wherever they are."""

    slots: int  # parcels that are carried out at a time

    def send(self, parcel: Parcel) -> None:
        """Have a parcel carried out; never more than ``slots`` at a time."""

    def news(self, timeout: float) -> Sequence[News]:
        """What has happened; waits for something, but not longer than ``timeout`` seconds."""

    def close(self) -> None:
        """Stop all work at once."""


class Inline:
    """One worker in this process, for a debugger; a run that kills it kills the sweep, too."""

    slots = 1

    def __init__(self, context: Context) -> None:
        self._worker, self._parcels = Worker(context), list[Parcel]()

    def send(self, parcel: Parcel) -> None:
        """See :class:`Engine`."""
        self._parcels.append(parcel)

    def news(self, timeout: float) -> Sequence[News]:
        """See :class:`Engine`."""
        if not self._parcels:
            return []
        parcel = self._parcels.pop()
        with their_words():
            entries = [entry for some in self._worker.carry_out(parcel.specs) for entry in some]
        return [News(parcel.number, tuple(entries), over=True)]

    def close(self) -> None:
        """See :class:`Engine`."""
