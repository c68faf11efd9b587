"""The paper's experiments: short scripts with a common command line, and a gallery that names each of them."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from tests.running import ROOT

from cockpit.core.errors import CockpitError

FOLDER = ROOT / "examples" / "paper"
SCRIPTS = sorted(FOLDER.glob("fig_*.py"))
GALLERY = ROOT / "docs" / "experiments.md"


def test_there_are_eight() -> None:
    assert len(SCRIPTS) == 8


@pytest.mark.parametrize("path", [*SCRIPTS, FOLDER / "sheet.py"], ids=lambda path: path.stem)
def test_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 90


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_says_how_it_is_used(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(path), run_name="__main__")
    assert left.value.code == 0
    written = capsys.readouterr().out
    for option in ("--seed", "--full", "-o FILE"):
        assert option in written


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_gallery_names_it(path: Path) -> None:
    text = GALLERY.read_text(encoding="utf-8")
    assert f"python examples/paper/{path.name}" in text
    picture = GALLERY.parent / f"{'_'.join(path.stem.split('_')[:3])}.png"
    assert f"({picture.name})" in text
    assert picture.stat().st_size < 150_000


def test_a_verdict_is_an_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    verdict = runpy.run_path(str(FOLDER / "sheet.py"))["verdict"]
    with pytest.raises(SystemExit) as left:
        verdict({"one": True}, replaced={"none": False})
    assert left.value.code == 0
    assert capsys.readouterr().out.splitlines()[-1] == "holds"
    with pytest.raises(SystemExit) as left:
        verdict({"one": True, "two": False})
    assert left.value.code == 1
    assert capsys.readouterr().out.splitlines()[-1] == "does not hold"


def test_missing_data_are_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    briefly = runpy.run_path(str(FOLDER / "sheet.py"))["_briefly"]
    with pytest.raises(SystemExit) as left:
        briefly(CockpitError, CockpitError("no data for 'svhn': put them there"), None)
    assert left.value.code == 2
    assert capsys.readouterr().err == "no data for 'svhn': put them there\n"
