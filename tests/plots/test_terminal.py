"""``cockpit show``."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.plots.samples import METADATA, stored

from cockpit.plots.terminal import listing, present
from cockpit.store import runs


def test_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    present(stored(tmp_path / "a"), json=False, keep_on=False)
    assert "FINISHED" in capsys.readouterr().out


@pytest.mark.parametrize("keep_on", [False, True])
def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], keep_on: bool) -> None:
    present(stored(tmp_path / "a", state="crashed"), json=True, keep_on=keep_on)
    shown = capsys.readouterr().out
    facts = json.loads(shown)
    assert (facts["name"], facts["state"], facts["step"], facts["loss"]) == ("digits", "crashed", 10, 0.2)
    assert facts["path"] == str(tmp_path / "a")
    assert len(shown.splitlines()) == 1 or not keep_on, "one object a line"


def test_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path / "old" / "a", started=METADATA["started"] - 100)
    stored(tmp_path / "b", state="crashed")
    present(tmp_path, json=False, keep_on=True)
    shown = capsys.readouterr().out
    assert shown.index("b ") < shown.index("old/a"), "newest first"
    assert "crashed" in shown
    assert "10 of 20" in shown
    present(tmp_path, json=True, keep_on=False)
    listed = json.loads(capsys.readouterr().out)["runs"]
    assert [entry["id"] for entry in listed] == ["b", "old/a"]


@pytest.mark.parametrize("width", [80, 140])
def test_the_list_fits(tmp_path: Path, width: int) -> None:
    stored(tmp_path / "20260101-120000-a-model-with-a-long-name")
    paper = StringIO()
    listing(runs(tmp_path), Console(file=paper, width=width, color_system=None))
    assert all(len(line) <= width for line in paper.getvalue().splitlines())


def test_an_interrupt_ends_it_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cockpit.plots.terminal.follow", interrupted)
    present(stored(tmp_path / "a"), json=False, keep_on=True)
