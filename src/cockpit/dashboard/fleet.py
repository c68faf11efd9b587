"""The runs below a folder: their listing, and those that are being looked at, kept open."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from cockpit import store
from cockpit.core.errors import CockpitError
from cockpit.dashboard.summaries import Summaries
from cockpit.panels.palette import apart, in_order
from cockpit.panels.theme import RUNS
from cockpit.results import folder as results
from cockpit.store.run import StoredRun

LISTED = 0.4  # seconds for which a listing is good enough
PATIENCE = 10  # times as long as it took to make: a huge folder must not be read without end
OPEN = 48  # runs kept open
TOGETHER = 40  # runs shown at once


class _Held:
    """An open run, and who may read it now."""

    def __init__(self, path: Path) -> None:
        self.run = StoredRun(path)
        self.lock = threading.RLock()


class Fleet:
    """What the page can show; a run is only ever looked up here by its id, never joined to a path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._infos: list[store.RunInfo] = []
        self._results = 0  # a mark of the benchmark results
        self._due = float("-inf")
        self._open: OrderedDict[str, _Held] = OrderedDict()
        self._colours: dict[str, str] = {}
        self.summaries = Summaries(self)

    def listing(self) -> list[store.RunInfo]:
        """All runs, newest first."""
        with self._lock:
            begin = time.monotonic()
            if begin > self._due:
                self._infos = [_addressed(info) for info in store.runs(self.folder)]
                self._results = results.mark(self.folder)
                done = time.monotonic()
                self._due = done + max(LISTED, PATIENCE * (done - begin))
                there = {info.id for info in self._infos}
                for gone in self._open.keys() - there:
                    del self._open[gone]
            return self._infos

    def let_go(self, ident: str) -> None:
        """Close a run that is about to change; whoever reads it now finishes first."""
        with self._lock:
            held = self._open.pop(ident, None)
        if held is not None:
            with held.lock:
                pass

    def renew(self) -> None:
        """Look at the folder anew at the next listing."""
        self._due = float("-inf")

    def info(self, ident: str) -> store.RunInfo:
        """What the listing says about one run."""
        for info in self.listing():
            if info.id == ident:
                return info
        raise _missing(ident)

    def colour(self, ident: str) -> str:
        """The colour of a run: given in the order of starting, and kept."""
        if ident not in self._colours:
            in_order((info.id for info in reversed(self.listing())), self._colours)
        return self._colours.get(ident, RUNS[0])

    def colours(self, idents: Iterable[str]) -> tuple[str, ...]:
        """The colours of runs that are shown together, no two the same as long as there are enough."""
        return apart([self.colour(ident) for ident in dict.fromkeys(idents)])

    @contextmanager
    def reading(self, idents: Sequence[str]) -> Iterator[list[StoredRun]]:
        """Hold some runs, brought up to date, so that no other thread changes them meanwhile."""
        if len(idents) > TOGETHER:
            raise CockpitError(f"{len(idents)} runs asked for at once; choose at most {TOGETHER}")
        held = {ident: self._hold(ident) for ident in dict.fromkeys(idents)}
        with self._expecting({ident: one.run.path for ident, one in held.items()}), ExitStack() as stack:
            for ident in sorted(held):  # always in the same order: two requests never wait for each other
                stack.enter_context(held[ident].lock)
            for one in held.values():
                one.run.refresh()
            yield [held[ident].run for ident in held]

    def pulse(self) -> tuple[dict[str, str], dict[str, int], int]:
        """Marks that change: for each run with what the list shows, for each open one with what its panels show.

        The last one changes with the results of a benchmark, which may come without any run.
        """
        listed = {info.id: _mark(info) for info in self.listing()}
        with self._lock:
            held, found = dict(self._open), self._results
        shown = {}
        for ident, one in held.items():
            if one.lock.acquire(blocking=False):  # else somebody reads it, and brings it up to date first
                try:
                    one.run.refresh()
                except (CockpitError, OSError):
                    pass  # gone in this moment: the next listing will tell
                finally:
                    one.lock.release()
            shown[ident] = one.run.version
        return listed, shown, found

    @contextmanager
    def _expecting(self, paths: Mapping[str, Path]) -> Iterator[None]:
        """A run may be deleted after it was listed: then it is gone, not wrong, and the list is due."""
        try:
            yield
        except (CockpitError, OSError) as error:
            for ident, path in paths.items():
                if not StoredRun.at(path):
                    self._due = float("-inf")
                    raise _missing(ident) from error
            raise

    def _hold(self, ident: str) -> _Held:
        path = self.info(ident).path
        with self._expecting({ident: path}), self._lock:
            held = self._open.get(ident)
            if held is None or held.run.path != path:
                held = self._open[ident] = _Held(path)
            self._open.move_to_end(ident)
            while len(self._open) > OPEN:
                self._open.popitem(last=False)
            return held


def _mark(info: store.RunInfo) -> str:
    """Changes with what the list shows of a run."""
    shown = (info.name, info.state, info.updated, info.reached, info.loss, info.steps, info.started, info.hidden)
    return " ".join(map(str, shown))


def _missing(ident: str) -> LookupError:
    return LookupError(f"there is no run {ident!r} in this folder; it may have been moved or deleted")


def _addressed(info: store.RunInfo) -> store.RunInfo:
    """A folder's name may hold bytes that are no text; an address cannot."""
    ident = info.id.encode("utf-8", "backslashreplace").decode()
    return info if ident == info.id else replace(info, id=ident)
