"""Names and hiding: what a reader writes on a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.store.contract import loss

from cockpit import store
from cockpit.core.errors import CockpitError
from cockpit.store.label import NAME, Label, label
from cockpit.store.run import StoredRun


def made(folder: Path, name: str = "given") -> Path:
    writer = store.create(folder, {"name": name, "git": None})
    writer.append([loss(0, 1.0)])
    writer.close()
    return folder


def listed(root: Path) -> list[tuple[str, bool]]:
    return [(info.name, info.hidden) for info in store.runs(root)]


def test_a_run_is_renamed_and_its_records_stay(tmp_path: Path) -> None:
    folder = made(tmp_path / "a")
    before = (folder / "run.db").read_bytes()
    assert listed(tmp_path) == [("given", False)]
    store.rename(folder, " another one ")
    assert listed(tmp_path) == [("another one", False)], "also where the list had been made before"
    assert StoredRun(folder).name == "another one"
    assert (folder / "run.db").read_bytes() == before


def test_a_run_is_hidden_and_shown_again(tmp_path: Path) -> None:
    folder = made(tmp_path / "a")
    store.hide(folder)
    store.rename(folder, "b")
    assert listed(tmp_path) == [("b", True)]
    store.hide(folder, False)
    assert listed(tmp_path) == [("b", False)]
    (folder / NAME).unlink()
    assert listed(tmp_path) == [("given", False)]
    store.hide(folder, False)
    assert not (folder / NAME).exists(), "an empty label is none"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": 3, "hidden": 1}', '{"name": " "}', "[" * 5000, "\0"])
def test_a_foreign_label_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert label(tmp_path) == Label()


def test_a_label_that_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    assert label(tmp_path) == Label()


def test_what_is_no_run_and_an_empty_name_are_refused(tmp_path: Path) -> None:
    for act in (store.hide, lambda place: store.rename(place, "a")):
        with pytest.raises(CockpitError, match="holds no run"):
            act(tmp_path)
    with pytest.raises(CockpitError, match="is empty"):
        store.rename(made(tmp_path / "a"), " ")
