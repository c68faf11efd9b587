from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.store.contract import loss, until

from cockpit.store import StoredRun, create, metadata

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "trunk")
    (tmp_path / "file").write_text("one")
    git("add", ".")
    git("commit", "-m", "first")
    return tmp_path


def test_what_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train it.py", "--lr", "0.1"])
    begin = time.perf_counter()
    found = metadata.collect()
    assert time.perf_counter() - begin < 1
    assert set(found) == {"started", "host", "pid", "command", "directory", "packages"}
    assert shlex.split(found["command"]) == [sys.executable, "train it.py", "--lr", "0.1"]
    assert found["directory"] == os.getcwd()
    assert found["packages"]["python"] == sys.version.split()[0]
    assert {"cockpit-deck", "numpy"} <= found["packages"].keys()


def test_packages_are_not_imported() -> None:
    code = "import sys; from cockpit.store.metadata import collect; collect(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"False"


@needs_git
def test_the_repository(repository: Path) -> None:
    found = metadata.git(repository)
    assert found is not None
    assert (len(found["commit"]), found["branch"], found["dirty"]) == (40, "trunk", False)
    (repository / "other").write_text("not tracked")
    assert metadata.git(repository) == found
    (repository / "file").write_text("two")
    assert metadata.git(repository) == found | {"dirty": True}


def test_no_repository_no_git_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert metadata.git(tmp_path) is None
    assert metadata.git(tmp_path / "missing") is None
    assert metadata.git(None) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert metadata.git(tmp_path) is None


def test_git_that_hangs_does_not_hold_anything_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(metadata, "PATIENCE", 3.0)
    begin = time.monotonic()
    writer = create(tmp_path / "run")
    writer.append([loss(0)])
    until(StoredRun(tmp_path / "run"), 0)
    writer.close()
    assert time.monotonic() - begin < 2.9
    assert "git" not in StoredRun(tmp_path / "run").metadata


@needs_git
def test_the_writer_asks_git_itself(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    create("run").close()
    assert StoredRun("run").metadata["git"]["branch"] == "trunk"
