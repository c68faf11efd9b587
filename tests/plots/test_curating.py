"""Runs are hidden, renamed and deleted from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.store.contract import loss

from cockpit.cli import main
from cockpit.store import StoredRun, create, runs


def call(*arguments: object, answer: str = "") -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), input=answer)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path))
    for number, name in enumerate(("a", "b")):
        writer = create(tmp_path / name, {"git": None, "started": 1.0 + number})
        writer.append([loss(0), loss(1)])
        writer.step = 2
        writer.close()
    return tmp_path


def test_a_hidden_run_is_not_listed_until_it_is_asked_for(folder: Path) -> None:
    assert "--all" in call("runs", "hide", "b").output
    assert [info.id for info in runs(folder) if not info.hidden] == ["a"]
    assert "b" not in call("show", folder, "--json").output.split('"id"')[0]
    assert call("show", "--json").output.count('"name": "a"') == 1, "the newest that is not hidden"
    assert call("show", folder, "--all", "--json").output.count('"id"') == 2
    call("runs", "unhide", folder / "b")
    assert call("show", folder, "--json").output.count('"id"') == 2
    call("runs", "hide", "a", "b")
    done = call("show", folder)
    assert (done.exit_code, "all 2 runs" in done.output) == (2, True)


def test_a_run_gets_another_name(folder: Path) -> None:
    assert call("runs", "rename", "a", "the good one").exit_code == 0
    assert StoredRun(folder / "a").name == "the good one"
    assert "empty" in call("runs", "rename", "a", " ").output


@pytest.mark.parametrize(("answer", "stays"), [("n\n", True), ("", True), ("y\n", False)])
def test_deleting_is_asked_back(folder: Path, answer: str, stays: bool) -> None:
    (folder / "a" / "model.pt").write_text("mine")
    done = call("runs", "delete", "a", answer=answer)
    assert "2 steps" in done.output
    assert StoredRun.at(folder / "a") is stays
    assert (folder / "a" / "model.pt").read_text() == "mine"
    assert StoredRun.at(folder / "b")


def test_deleting_without_a_question(folder: Path) -> None:
    done = call("runs", "delete", "a", folder / "b", "--yes")
    assert (done.exit_code, runs(folder), list(folder.iterdir())) == (0, [], [])


def test_what_is_no_run_is_said_before_anything_is_done(folder: Path) -> None:
    done = call("runs", "delete", "a", "zzz", "--yes")
    assert (done.exit_code, "zzz is no run" in done.output) == (2, True)
    assert StoredRun.at(folder / "a")


def test_a_running_run_is_not_deleted(folder: Path) -> None:
    writer = create(folder / "c", {"git": None})
    done = call("runs", "delete", "c", "--yes")
    assert (done.exit_code, "being written" in done.output) == (2, True)
    writer.close()
