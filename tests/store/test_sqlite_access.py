"""Reading leaves no trace, and works where nothing can be written."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.contract import loss, until
from tests.store.killing import kill

from cockpit.store import StoredRun, create
from cockpit.store.sqlite_access import Access


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = create(tmp_path / "run", {"git": None})
    for step in range(20):
        writer.append([loss(step)])
    writer.close()
    return tmp_path / "run"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def frames(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM frames").fetchone()[0])


def barred(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """As SQLite answers where it would have to write and may not; root may write anywhere."""
    answer = Access._answer

    def refuse(self: Access, path: Path, option: str, question: object) -> object:
        if path.parent == folder and "immutable" not in option:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return answer(self, path, option, question)  # type: ignore[arg-type]

    monkeypatch.setattr(Access, "_answer", refuse)


def test_reading_a_finished_run_leaves_nothing_behind(folder: Path) -> None:
    run = StoredRun(folder)
    assert len(run.scalar("Loss")) == 20
    assert run.damaged is None
    assert names(folder) == ["run.db", "run.lock"]


def test_what_another_program_left_does_not_matter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "run.db-wal").write_bytes(b"")
    barred(monkeypatch, folder)
    run = StoredRun(folder)
    assert (len(run.scalar("Loss")), run.damaged) == (20, None)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL on Windows")
def test_a_killed_run_where_nothing_can_be_written_is_read_from_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    kill(folder, 0, 1, 0.5)
    expected = len(StoredRun(folder).scalar("s0"))
    (folder / "run.db-shm").unlink()
    assert (folder / "run.db-wal").stat().st_size > 0
    barred(monkeypatch, folder)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    run = StoredRun(folder)
    assert len(run.scalar("s0")) == expected > 0
    assert run.damaged is None
    assert "run.db-shm" not in names(folder)
    assert len(names(tmp_path / "temporary")) == 1, "one copy, not one for each question"
    del run
    gc.collect()
    assert names(tmp_path / "temporary") == []


def test_who_begins_to_write_meanwhile_is_noticed(folder: Path) -> None:
    asked = []
    writers = []

    def question(connection: sqlite3.Connection) -> int:
        asked.append(frames(connection))
        if len(asked) == 1:
            writers.append(create(folder, {"git": None}, 20))
            writers[0].append([loss(20)])
            until(StoredRun(folder), 20)
        return frames(connection)

    assert Access(folder / "run.db").ask(question) == 21
    assert asked == [20, 21]
    writers[0].close()


def test_a_writer_is_never_read_as_if_at_rest(folder: Path) -> None:
    writer = create(folder, {"git": None}, 20)
    access = Access(folder / "run.db")
    assert not access._at_rest(access.signature())
    writer.append([loss(20)])
    writer.close()
    assert access._at_rest(access.signature())
    assert access.ask(frames) == 21


@pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_reads_a_killed_run(tmp_path: Path) -> None:
    """The real thing: a folder of root, without shared memory, read by nobody."""
    place = Path("/var/tmp") / f"cockpit-test-{os.getpid()}"
    shutil.rmtree(place, ignore_errors=True)
    try:
        kill(place, 0, 1, 0.5)
        (place / "run.db-shm").unlink(missing_ok=True)
        place.chmod(0o755)
        code = """
import os, sys
from cockpit.store import StoredRun
os.setgid(65534); os.setuid(65534)
run = StoredRun(sys.argv[1])
print(len(run.scalar("s0")), run.damaged)
"""
        done = subprocess.run([sys.executable, "-c", code, str(place)], capture_output=True, text=True, timeout=60)
        found, damaged = done.stdout.split()
        assert int(found) > 0, done.stderr
        assert damaged == "None"
    finally:
        shutil.rmtree(place, ignore_errors=True)
