from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.results.sweeps.plans import SGD, entry, plan

from cockpit.bench.sweep.engine import News, Parcel
from cockpit.bench.sweep.run import Sweep
from cockpit.results.sweeps.cells import cells
from cockpit.results.sweeps.plan import SweepPlan
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.store import Entry, Store, create

MANY = plan(
    optimizers=(SGD, replace(SGD, name="Momentum", defaults={"lr": 0.01, "momentum": 0.99})),
    budgets=("oneshot", "small", "medium", "large"),
    schedules=("constant", "cosine"),
)


def made(spec: Spec) -> Entry:
    """A result that depends on the run alone."""
    value = random.Random(spec.id).random()
    return entry(spec, valid=value, test=value + 1, state="diverged" if value < 0.1 else "finished")


class Killed(Exception):
    """The sweep ends at once."""


class Fake:
    """Workers that make results up, in any order, and die of some runs."""

    slots = 3

    def __init__(self, seed: int, deadly: Callable[[Spec], bool] = lambda spec: False, until: int = 10**9) -> None:
        self._random, self._deadly, self._until = random.Random(seed), deadly, until
        self._parcels: list[Parcel] = []
        self.trained: list[str] = []
        self.deaths = 0

    def send(self, parcel: Parcel) -> None:
        assert len(self._parcels) < self.slots
        assert parcel.specs
        self._parcels.append(parcel)

    def news(self, timeout: float) -> Sequence[News]:
        if len(self.trained) >= self._until:
            raise Killed
        parcel = self._parcels.pop(self._random.randrange(len(self._parcels)))
        specs = list(parcel.specs)
        for place, spec in enumerate(specs):
            if self._deadly(spec):
                self.deaths += 1
                some = tuple(map(made, specs[:place])) if self._random.random() < 0.5 else ()
                self.trained += [one.id for one in some]
                return [News(parcel.number, some), News(parcel.number, died="signal 9 (SIGKILL)")]
        self.trained += [spec.id for spec in specs]
        cut = self._random.randrange(len(specs) + 1)
        return [
            News(parcel.number, tuple(map(made, specs[:cut]))),
            News(parcel.number, tuple(map(made, specs[cut:])), over=True),
        ]

    def close(self) -> None:
        pass


def swept(folder: Path, engine: Fake, wanted: SweepPlan = MANY, again: bool = False) -> Store:
    store = create(folder, wanted)
    Sweep(wanted, store, engine, lambda count, going: None, again).go(lambda: None)
    return store


def contents(store: Store) -> list[dict[str, object]]:
    return sorted(store.records(), key=lambda one: str(one["id"]))


def test_every_run_once(tmp_path: Path) -> None:
    engine = Fake(0)
    store = swept(tmp_path / "a", engine)
    assert len(engine.trained) == len(set(engine.trained)) == len(store.rows())
    assert all(one.missing == 0 for one in cells(store, MANY))
    assert store.leased() == (0, 0)
    again = Fake(0)
    swept(tmp_path / "a", again)
    assert not again.trained


@pytest.mark.parametrize("seed", range(5))
def test_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    whole = contents(swept(tmp_path / "whole", Fake(99)))
    drawn = random.Random(seed)
    for number in range(1000):
        try:
            store = swept(tmp_path / "part", Fake(number, until=drawn.randrange(1, 60)))
            break
        except Killed:
            continue
    assert contents(store) == whole


def test_a_run_that_workers_die_of(tmp_path: Path) -> None:
    store = create(tmp_path / "a", MANY)
    deadly = {spec.id for spec in _first(MANY)[3:5]}
    engine = Fake(1, lambda spec: spec.id in deadly)
    Sweep(MANY, store, engine, lambda count, going: None).go(lambda: None)
    failed = {one["id"]: one for one in store.records(state="failed")}
    assert failed.keys() == deadly
    for one in failed.values():
        assert one["message"] == "its worker died 3 times while the run was alone, the last time of signal 9 (SIGKILL)"
        assert one["attempts"] == 3
    assert all(one.missing == 0 for one in cells(store, MANY))
    # It is trained again only when that is asked for.
    swept(tmp_path / "a", Fake(1))
    assert len(list(store.records(state="failed"))) == 2
    swept(tmp_path / "a", Fake(1), again=True)
    assert not list(store.records(state="failed"))


def test_a_worker_that_dies_once_costs_nothing(tmp_path: Path) -> None:
    first = {spec.id for spec in _first(MANY)[:2]}

    def once(spec: Spec) -> bool:
        if spec.id in first:
            first.discard(spec.id)
            return True
        return False

    engine = Fake(2, once)
    store = swept(tmp_path / "a", engine)
    assert engine.deaths == 2
    assert contents(store) == contents(swept(tmp_path / "b", Fake(3)))


def _first(wanted: SweepPlan) -> list[Spec]:
    from cockpit.results.sweeps.runs import groups

    return groups(wanted)[0].oneshot()
