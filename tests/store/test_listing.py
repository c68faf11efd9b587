from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from tests.store.contract import loss

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import StoredRun, create, runs
from cockpit.store.lock import Lock
from cockpit.store.sqlite_reader import SqliteReader


def make(folder: Path, count: int, **metadata: object) -> None:
    writer = create(folder, {"git": None, **metadata})
    for step in range(count):
        writer.append([loss(step, 1 / (step + 1)), Record(step, "x", Kind.PER_SAMPLE, [1, 2])])
    writer.close()


def test_runs_behind_links(tmp_path: Path) -> None:
    make(tmp_path / "disk" / "sweep" / "one", 1)
    make(tmp_path / "runs" / "two", 1)
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "disk" / "sweep")
    (tmp_path / "runs" / "itself").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "again").symlink_to(tmp_path / "runs" / "two")
    (tmp_path / "runs" / "nowhere").symlink_to(tmp_path / "gone")
    assert sorted(info.id for info in runs(tmp_path / "runs")) == ["linked/one", "two"], "each of them once"


def test_a_link_that_leads_far_away_costs_little(tmp_path: Path) -> None:
    make(tmp_path / "disk" / "a" / "b" / "c" / "deep", 1)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "far").symlink_to(tmp_path / "disk")
    assert runs(tmp_path / "runs") == []


def test_all_runs_the_newest_first(tmp_path: Path) -> None:
    make(tmp_path, 1, started=5.0)
    make(tmp_path / "b" / "deep er", 200, started=20.0, name="named", steps=500)
    make(tmp_path / "a", 0, started=10.0)
    (tmp_path / "no run").mkdir()
    make(tmp_path / ".hidden", 1)
    found = runs(tmp_path)
    assert [info.id for info in found] == ["b/deep er", "a", "."]
    first = found[0]
    assert (first.name, first.state, first.last_step, first.reached, first.steps) == (
        "named", "finished", 199, 199, 500)  # fmt: skip
    assert first.path == tmp_path / "b" / "deep er"
    assert first.started == 20.0
    assert first.loss == 1 / 200
    assert len(first.losses) == 40
    assert (first.losses[0], first.losses[-1]) == (1.0, 1 / 200)
    assert (found[1].loss, found[1].losses, found[1].last_step) == (None, (), None)


def test_a_second_look_is_cheap_and_sees_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        make(tmp_path / str(number), 3)
    first = runs(tmp_path)
    asked: list[int] = []
    news = SqliteReader.news
    monkeypatch.setattr(SqliteReader, "news", lambda self, growing: asked.append(1) or news(self, growing))
    begin = time.perf_counter()
    assert runs(tmp_path) == first
    assert time.perf_counter() - begin < 0.2
    assert asked == []
    make(tmp_path / "3", 1)
    shutil.rmtree(tmp_path / "4")
    found = {info.id: info for info in runs(tmp_path)}
    assert found["3"].last_step == 0
    assert "4" not in found


def test_a_damaged_run_is_listed_too(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.db").write_bytes(b"nothing of the kind" * 100)
    (info,) = runs(tmp_path)
    assert (info.id, info.state, info.last_step) == ("bad", "unreadable", None)
    assert "not a database" in str(info.reason)


def test_a_folder_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert runs(tmp_path / "missing") == []


def test_a_folder_in_which_nothing_was_written_yet_is_no_run(tmp_path: Path) -> None:
    """Killed before its file was made: only the lock is there."""
    (tmp_path / "begun").mkdir()
    Lock(tmp_path / "begun").close()
    assert runs(tmp_path) == []
    assert not StoredRun.at(tmp_path / "begun")
    make(tmp_path / "begun", 3)
    assert [(info.id, info.last_step) for info in runs(tmp_path)] == [("begun", 2)]


def test_losses_that_are_not_finite_are_no_points(tmp_path: Path) -> None:
    writer = create(tmp_path, {"git": None})
    for step, value in enumerate([1.0, float("nan"), 2.0, float("inf")]):
        writer.append([loss(step, value)])
    writer.close()
    (info,) = runs(tmp_path)
    assert (info.losses, info.loss) == ((1.0, 2.0), float("inf"))


def test_a_link_that_leads_back_is_not_followed(tmp_path: Path) -> None:
    make(tmp_path / "runs" / "a", 1)
    make(tmp_path / "beside", 1)
    (tmp_path / "runs" / "a" / "loop").symlink_to("..")
    (tmp_path / "runs" / "up").symlink_to(tmp_path)
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "beside")
    assert sorted(info.id for info in runs(tmp_path / "runs")) == ["a", "linked"]
