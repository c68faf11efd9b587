"""``cockpit show``."""

from __future__ import annotations

import json
from io import StringIO
from math import inf, nan
from pathlib import Path

import pytest
from rich.console import Console
from tests.plots.samples import METADATA, stored

from cockpit import store
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
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
    assert (facts["name"], facts["state"], facts["step"], facts["loss"]) == ("digits", "crashed", 9, 0.2)
    assert facts["path"] == str(tmp_path / "a")
    assert len(shown.splitlines()) == 1 or not keep_on, "one object a line"


def test_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path / "old" / "a", started=METADATA["started"] - 100)
    stored(tmp_path / "b", state="crashed")
    present(tmp_path, json=False, keep_on=False)
    shown = capsys.readouterr().out
    assert shown.index("b ") < shown.index("old/a"), "newest first"
    assert "crashed" in shown
    assert "9 of 20" in shown
    present(tmp_path, json=True, keep_on=False)
    listed = json.loads(capsys.readouterr().out)["runs"]
    assert [entry["id"] for entry in listed] == ["b", "old/a"]
    assert [(entry["step"], entry["reached"]) for entry in listed] == [(9, 10)] * 2
    present(tmp_path, json=False, keep_on=True)
    assert capsys.readouterr().out.startswith("digits, crashed, step 9 of 20"), "the newest is followed"


def test_a_loss_that_is_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, loss in (("a", nan), ("b", inf)):
        writer = store.create(tmp_path / name, METADATA)
        writer.append([Record(0, "Loss", Kind.SCALAR, loss)])
        writer.close()
    present(tmp_path, json=True, keep_on=False)
    listed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["runs"]
    assert [entry["loss"] for entry in listed] == [None, None]


def test_damaged_runs_are_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path / "sound", 200)
    file = stored(tmp_path / "torn", 200) / "run.db"
    content = bytearray(file.read_bytes())
    middle = slice(len(content) // 2, len(content) // 2 + 4096)
    content[middle] = bytes(byte ^ 0x5A for byte in content[middle])
    file.write_bytes(content)
    present(tmp_path, json=False, keep_on=False)
    shown = capsys.readouterr().out
    assert shown.count("damaged") == 1
    assert shown.index("sound") < shown.index("torn") < shown.index("damaged")
    present(tmp_path, json=True, keep_on=False)
    listed = {entry["id"]: entry["damaged"] for entry in json.loads(capsys.readouterr().out)["runs"]}
    assert listed["sound"] is None
    assert "run.db" in listed["torn"]


@pytest.mark.parametrize("width", [20, 40, 80, 140])
def test_the_list_fits(tmp_path: Path, width: int) -> None:
    stored(tmp_path / "20260101-120000-a-model-with-a-long-name")
    paper = StringIO()
    listing(runs(tmp_path), Console(file=paper, width=width, color_system=None))
    assert all(len(line) <= width for line in paper.getvalue().splitlines())
    folded = "".join(line.strip().split(" ")[0] for line in paper.getvalue().splitlines())
    assert "20260101-120000-a-model-with-a-long-name" in folded, "the name is there, on several lines if need be"


def test_an_interrupt_ends_it_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cockpit.plots.terminal.follow", interrupted)
    present(stored(tmp_path / "a"), json=False, keep_on=True)
