from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from tests.results.sweeps.plans import PLAN, entry, plan

from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.store import Store, create


def test_it_appears_with_its_plan(tmp_path: Path) -> None:
    store = create(tmp_path / "a/b", PLAN)
    assert Store(tmp_path / "a/b").plan() == PLAN
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    other = plan(seeds=3)
    assert create(tmp_path / "a/b", other).plan() == PLAN  # one that is there stays
    assert not store.keep(PLAN)
    assert store.keep(other)
    assert store.plan() == other


def test_an_empty_folder_will_do_another_will_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert create(tmp_path / "empty", PLAN).plan() == PLAN
    with pytest.raises(CockpitError, match="is there, and holds no sweep"):
        create(tmp_path, PLAN)
    with pytest.raises(CockpitError, match=r"holds no sweep \(sweep.db is missing\)"):
        Store(tmp_path)


def test_a_killed_process_leaves_nothing_that_lasts(tmp_path: Path) -> None:
    part = tmp_path / ".a-x.part"
    part.mkdir()
    os.utime(part, (0, 0))
    create(tmp_path / "a", PLAN)
    assert not part.exists()


def test_results_come_back(tmp_path: Path) -> None:
    store, specs = create(tmp_path / "a", PLAN), groups(PLAN)[0].oneshot()
    assert store.commit([entry(spec, valid=spec.seed / 7) for spec in specs[:3]], {"x": 1, "y": 1}) == 3
    assert store.leased() == (2, 1)
    rows = Store(tmp_path / "a").rows()
    assert {id: row.validation for id, row in rows.items()} == {spec.id: spec.seed / 7 for spec in specs[:3]}
    curves = store.curves([specs[1].id, "absent"])
    assert curves == {specs[1].id: {"train_loss": [3.0] * 3, "valid_loss": [43 / 7] * 3, "test_loss": [2.0] * 3}}
    (record,) = store.records([specs[0].id])
    assert record["identity"] == specs[0].identity
    assert record["curves"]["valid_loss"][-1] == 6.0
    assert (record["seed"], record["hyperparameters"], record["state"]) == (42, {"lr": 0.01}, "finished")
    assert store.machines() == {1: {"torch": "2"}}


def test_a_result_is_committed_once(tmp_path: Path) -> None:
    store, spec = create(tmp_path / "a", PLAN), groups(PLAN)[0].oneshot()[0]
    assert store.commit([entry(spec, valid=1.0)]) == 1
    assert store.commit([entry(spec, valid=9.0)]) == 0
    assert store.rows()[spec.id].validation == 1.0


def test_a_failure_gives_way(tmp_path: Path) -> None:
    store, spec = create(tmp_path / "a", PLAN), groups(PLAN)[0].oneshot()[0]
    store.commit([entry(spec, state="failed", message="out of memory", trace="...", attempts=2)])
    (record,) = store.records(state="failed")
    assert (record["message"], record["trace"], record["attempts"], record["curves"]) == ("out of memory", "...", 2, {})
    assert store.commit([entry(spec, valid=1.0)]) == 1
    assert store.rows()[spec.id].state == "finished"
    assert next(store.records())["message"] is None


def test_a_transaction_is_whole(tmp_path: Path) -> None:
    store, specs = create(tmp_path / "a", PLAN), groups(PLAN)[0].oneshot()
    broken = entry(specs[1])
    object.__setattr__(broken, "state", None)  # which the table refuses
    with pytest.raises(CockpitError, match="cannot be read or written"):
        store.commit([entry(specs[0]), broken])
    assert not store.rows()


def test_what_a_killed_writer_left_is_rolled_back(tmp_path: Path) -> None:
    store, specs = create(tmp_path / "a", PLAN), groups(PLAN)[0].oneshot()
    store.commit([entry(specs[0])])
    child = os.fork()
    if child == 0:
        db = sqlite3.connect(store.path, isolation_level=None)
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN IMMEDIATE")
        for number in range(200):
            db.execute("INSERT INTO machine(json) VALUES (?)", (f"{number}" * 1000,))
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "a/sweep.db-journal").exists()
    assert len(store.rows()) == 1
    assert len(store.machines()) == 1


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    store, specs = create(tmp_path / "a", PLAN), groups(PLAN)[0].oneshot()
    store.commit([entry(specs[0])])
    pages = sqlite3.connect(store.path)
    (count,) = pages.execute("PRAGMA page_count").fetchone()
    pages.close()
    large = entry(specs[1], length=20_000)
    noise = {name: np.random.default_rng(0).random(20_000).tolist() for name in large.curves}
    object.__setattr__(large, "curves", noise)
    original = sqlite3.connect

    def limited(*arguments: object, **options: object) -> sqlite3.Connection:
        db = original(*arguments, **options)  # type: ignore[call-overload]
        db.execute(f"PRAGMA max_page_count = {count}")
        return db

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", limited)
        with pytest.raises(CockpitError, match="the disk is full; what was committed is kept"):
            store.commit([large])
    assert store.rows().keys() == {specs[0].id}


def test_size_of_a_run(tmp_path: Path) -> None:
    """A run of the quadratic takes at most 5 kB."""
    store = create(tmp_path / "a", PLAN)
    before, specs = store.bytes, groups(plan(seeds=500))[0].oneshot()
    entries = []
    for spec in specs:
        found, random = entry(spec), np.random.default_rng(spec.seed)
        object.__setattr__(found, "curves", {name: random.random(101).tolist() for name in found.curves})
        entries.append(found)
    store.commit(entries)
    assert (store.bytes - before) / len(specs) < 5000
