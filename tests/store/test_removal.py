"""Deleting a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.contract import loss
from tests.store.test_label import made

from cockpit import store
from cockpit.core.errors import CockpitError


def test_the_folder_goes_with_its_records(tmp_path: Path) -> None:
    folder = made(tmp_path / "a")
    (folder / "start.pt").write_bytes(b"weights")
    store.hide(folder)
    assert store.delete(folder) == []
    assert not folder.exists()
    assert store.runs(tmp_path) == []


def test_what_recording_has_not_written_stays(tmp_path: Path) -> None:
    folder = made(tmp_path / "a")
    (folder / "model.pt").write_bytes(b"weights")
    (folder / "below").mkdir()
    assert store.delete(folder) == [folder / "below", folder / "model.pt"]
    assert (folder / "model.pt").read_bytes() == b"weights"
    assert store.runs(tmp_path) == []


def test_a_run_that_is_being_written_is_refused(tmp_path: Path) -> None:
    writer = store.create(tmp_path / "a", {"git": None})
    writer.append([loss(0, 1.0)])
    with pytest.raises(CockpitError, match="stop that training first"):
        store.delete(tmp_path / "a")
    writer.append([loss(1, 0.5)])
    writer.close()
    assert len(store.StoredRun(tmp_path / "a").scalar("Loss")) == 2


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(CockpitError, match="holds no run"):
        store.delete(tmp_path)
    assert (tmp_path / "notes").exists()


def test_behind_a_link(tmp_path: Path) -> None:
    made(tmp_path / "disk" / "a")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a").symlink_to(tmp_path / "disk" / "a")
    assert store.delete(tmp_path / "runs" / "a") == []
    assert list((tmp_path / "runs").iterdir()) == list((tmp_path / "disk").iterdir()) == []
