from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from cockpit.bench import checkpoint
from cockpit.core.errors import CockpitError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with checkpoint.alone(tmp_path / "run"):
        return tmp_path / "run"


def test_a_state_is_kept_and_removed(folder: Path) -> None:
    assert checkpoint.load(folder) is None
    checkpoint.save(folder, {"weight": torch.arange(3.0), "epoch": 1})
    checkpoint.save(folder, {"weight": torch.arange(4.0), "epoch": 2})
    state = checkpoint.load(folder)
    assert state is not None
    assert state["epoch"] == 2
    assert torch.equal(state["weight"], torch.arange(4.0))
    checkpoint.remove(folder)
    checkpoint.remove(folder)
    assert checkpoint.load(folder) is None


def test_an_error_while_writing_leaves_the_state_before(folder: Path) -> None:
    checkpoint.save(folder, {"epoch": 1})
    with pytest.raises(Exception, match="pickle"):
        checkpoint.save(folder, {"epoch": lambda: 2})
    assert checkpoint.load(folder) == {"epoch": 1}
    assert [path.name for path in (folder / ".resume").iterdir() if path.name != "run.lock"] == ["state.pt"]


def test_a_foreign_state(folder: Path) -> None:
    path = folder / ".resume" / "state.pt"
    path.write_text("hello")
    with pytest.raises(CockpitError, match=r"cannot be read .*--again"):
        checkpoint.load(folder)
    torch.save([1], path)
    with pytest.raises(CockpitError, match="not the state of a run"):
        checkpoint.load(folder)


def test_code_in_a_state_is_not_run(folder: Path) -> None:
    torch.save({"epoch": os.getcwd}, folder / ".resume" / "state.pt")
    with pytest.raises(CockpitError, match="cannot be read"):
        checkpoint.load(folder)


def test_what_a_killed_process_left_is_removed(folder: Path) -> None:
    left = [folder / ".resume" / ".123-0.part.pt", folder / ".123-1.part.json"]
    for path in left:
        path.write_bytes(b"half")
    with checkpoint.alone(folder):
        assert not any(path.exists() for path in left)


def test_a_folder_has_one_owner(folder: Path) -> None:
    refused = pytest.raises(CockpitError, match=f"being written by process {os.getpid()} on .*; wait for it")
    with checkpoint.alone(folder), refused, checkpoint.alone(folder):
        pass
    with checkpoint.alone(folder):
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CockpitError, match="cannot be written"), checkpoint.alone(tmp_path / "file" / "run"):
        pass


def test_fit(tmp_path: Path) -> None:
    checkpoint.fit(tmp_path, {"betas": [0.9, 0.99], "more": 1}, {"betas": (0.9, 0.99)})
    with pytest.raises(CockpitError, match="epochs was 3, is 4; seed was None, is 1; give the same"):
        checkpoint.fit(tmp_path, {"epochs": 3}, {"epochs": 4, "seed": 1})
