"""A sweep: hands out what is left to do, commits what comes back, names new runs as winners are known."""

import shutil
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from cockpit.bench import packs
from cockpit.bench.sweep.engine import Engine, News, Parcel
from cockpit.bench.sweep.ledger import Ledger
from cockpit.bench.sweep.making import Maker
from cockpit.bench.sweep.progress import Progress
from cockpit.bench.sweep.waiting import DEATHS, FEW, MOST, Waiting
from cockpit.bench.sweep.work import failed
from cockpit.results.sweeps.plan import SweepPlan
from cockpit.results.sweeps.runs import Group, Spec
from cockpit.results.sweeps.store import Entry, Row, Store

SCRATCH = "going"  # a folder in the store's, for what runs that go alone need to be continued


@dataclass
class _Out:
    """A parcel that is with a worker."""

    key: Hashable | None
    specs: dict[str, Spec]  # that have not ended
    begin: float
    runs: int
    epochs: tuple[int, int] | None = None  # of a run that goes alone: trained, and in all


class Sweep:
    """What is to be done, and what is being done."""

    def __init__(self, plan: SweepPlan, store: Store, engine: Engine, progress: Progress, again: bool = False) -> None:
        """Look what is there; ``again``: runs that failed are to be trained again."""
        rows = store.rows()
        if again:
            rows = {id: row for id, row in rows.items() if row.state != "failed"}
        self._store, self._engine, self._progress = store, engine, progress
        self._ledger, self._waiting, self._maker = Ledger(plan, rows), Waiting(), Maker()
        self._keys: dict[int, tuple[Hashable | None, int]] = {}  # what runs of a group go with, and how many at first
        self._out: dict[int, _Out] = {}
        self._number = 0

    def go(self, alive: Callable[[], None]) -> None:
        """Work until nothing is left; ``alive`` is called every second or so."""
        self._add(self._ledger.begin())
        while self._waiting or self._out:
            entries: list[Entry] = []
            for news in self._engine.news(1.0) if self._out else ():
                entries += self._take(news)
            rows = {entry.id: Row(entry.state, entry.validation, entry.seconds, 0) for entry in entries}
            self._add(self._ledger.ended(rows))
            sent = self._send()
            if sent or entries:
                self._store.commit(entries, {id: number for number, out in self._out.items() for id in out.specs})
            for entry in entries:
                shutil.rmtree(self._store.folder / SCRATCH / entry.id, ignore_errors=True)
            self._progress(self._ledger.count, [out.epochs for out in self._out.values() if out.epochs is not None])
            alive()
        shutil.rmtree(self._store.folder / SCRATCH, ignore_errors=True)

    def _add(self, named: Sequence[tuple[Group, Spec]]) -> None:
        for group, spec in named:
            if id(group) not in self._keys:
                plan = self._maker.plan(spec)
                self._keys[id(group)] = packs.together(plan), FEW if plan.choice.rule is None else MOST
            key, size = self._keys[id(group)]
            self._waiting.add(key, spec, size)

    def _send(self) -> bool:
        """Hand out parcels while there are workers and runs."""
        before = self._number
        while self._waiting and len(self._out) < self._engine.slots:
            key, specs = self._waiting.next(self._engine.slots)
            self._number += 1
            self._out[self._number] = _Out(key, {spec.id: spec for spec in specs}, time.monotonic(), len(specs))
            self._engine.send(Parcel(self._number, specs))
        return self._number > before

    def _take(self, news: News) -> list[Entry]:
        """What a worker says; returns results."""
        out = self._out[news.number]
        out.epochs = news.epochs or out.epochs
        entries = [entry for entry in news.entries if out.specs.pop(entry.id, None) is not None]
        if news.over or news.died is not None:
            del self._out[news.number]
        if news.over:
            self._waiting.took(out.key, out.runs, time.monotonic() - out.begin)
        if news.died is not None and out.specs:
            dead = self._waiting.died(list(out.specs.values()))
            if dead is not None:
                said = f"its worker died {DEATHS} times while the run was alone, the last time of {news.died}"
                entries.append(failed(dead, said, None, DEATHS))
        return entries
