from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.contract import StoreContract, loss

from cockpit.store import StoredRun, create
from cockpit.store.backend import Foreign
from cockpit.store.sqlite import SqliteLog


class TestSqlite(StoreContract):
    backend = "sqlite"


def make(folder: Path, steps: int = 3) -> None:
    writer = create(folder, {"git": None})
    for step in range(steps):
        writer.append([loss(step)])
    writer.close()


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "run.db")) as other:
        other.execute("CREATE TABLE photos (name)")
    before = (tmp_path / "run.db").read_bytes()
    assert "another program" in str(StoredRun(tmp_path).damaged)
    with pytest.raises(Foreign, match="another program"):
        SqliteLog(tmp_path)
    assert (tmp_path / "run.db").read_bytes() == before


def test_a_newer_format_is_said(tmp_path: Path) -> None:
    make(tmp_path)
    with closing(sqlite3.connect(tmp_path / "run.db")) as future:
        future.execute("PRAGMA user_version=99")
    assert "update cockpit-deck" in str(StoredRun(tmp_path).damaged)


def test_a_database_that_was_only_just_begun_is_an_empty_run(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "run.db")) as begun:
        begun.execute("PRAGMA journal_mode=WAL")
    run = StoredRun(tmp_path)
    assert (dict(run.kinds), run.last_step) == ({}, None)
    make(tmp_path)
    run.refresh()
    assert run.last_step == 2


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    make(tmp_path)
    with closing(sqlite3.connect(tmp_path / "run.db")) as spoiler:
        spoiler.execute("UPDATE frames SET numbers = zeroblob(8) WHERE step = 1")
        spoiler.commit()
    run = StoredRun(tmp_path)
    assert run.scalar("Loss").values.tolist() == [0.0, 2.0]
    assert run.damaged == "1 record is damaged and left out"


def test_anybody_can_ask_the_database(tmp_path: Path) -> None:
    make(tmp_path)
    with closing(sqlite3.connect(tmp_path / "run.db")) as database:
        assert database.execute("SELECT step FROM frames ORDER BY step").fetchall() == [(0,), (1,), (2,)]
        assert database.execute("SELECT state, first_step FROM attempts").fetchall() == [("finished", 0)]


def test_a_closed_run_leaves_one_file(tmp_path: Path) -> None:
    make(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.db", "run.lock"]
