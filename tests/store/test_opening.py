"""A folder that cannot be opened for writing is left as it was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.contract import loss

from cockpit.store import StoredRun, create
from cockpit.store.framed import FramedLog
from cockpit.store.sqlite import SqliteLog


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture(params=["sqlite", "file"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COCKPIT_STORE", request.param)
    return str(request.param)


@pytest.mark.parametrize("moment", ["_prepare", "write"])
def test_a_full_disk_leaves_no_folder(
    tmp_path: Path, backend: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (SqliteLog, FramedLog):
        monkeypatch.setattr(kind, moment, full)
    writer = create(tmp_path / "deep" / "run", {"git": None})
    assert "No space left" in str(writer.problem)
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_there_stays(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with monkeypatch.context() as patch:
        for kind in (SqliteLog, FramedLog):
            patch.setattr(kind, "write", full)
        assert create(tmp_path / "run", {"git": None}).problem
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_a_run_that_cannot_be_continued_stays_as_it_is(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = create(tmp_path, {"git": None})
    writer.append([loss(0)])
    writer.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        for kind in (SqliteLog, FramedLog):
            patch.setattr(kind, "write", full)
        assert create(tmp_path, {"git": None}, 1).problem
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert (StoredRun(tmp_path).state, StoredRun(tmp_path).damaged) == ("finished", None)


def test_a_wrong_setting_is_said_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_STORE", "bogus")
    writer = create(tmp_path / "run", {"git": None})
    assert "COCKPIT_STORE is 'bogus'; set it to 'sqlite' or 'file'" in str(writer.problem)
    assert list(tmp_path.iterdir()) == []
