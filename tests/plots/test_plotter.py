"""CockpitPlotter, as in the paper."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.plots.samples import METADATA, output, records, stored

from cockpit import CockpitPlotter
from cockpit.core.errors import CockpitError
from cockpit.core.recorded import Recorded
from cockpit.paper_log import write_json

SIGNATURES = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_json(output(), tmp_path / "log.json")
    return tmp_path / "log"


class Live:
    def get_output(self) -> dict[int, dict[str, Any]]:
        return output()


class Watched:
    folder: Path | None = None

    def source(self) -> Recorded:
        return Recorded(records(), "net", METADATA)


@pytest.mark.parametrize("place", ["file/below", "folder"])
def test_a_place_that_takes_no_figure(log: Path, tmp_path: Path, place: str) -> None:
    pytest.importorskip("vl_convert")
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "log.png").mkdir(parents=True)
    with pytest.raises(CockpitError, match="cannot be written"):
        CockpitPlotter().plot(log, savedir=tmp_path / place, save_plot=True, show_plot=False)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["log.png"]


# ---- what is read


def test_every_source_gives_the_same_deck(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(output(), tmp_path / "run" / "output.json")
    plotter = CockpitPlotter()
    shown, parsed = set(), json.loads(Path(f"{log}.json").read_text())
    for source in (str(log), log, f"{log}.json", tmp_path / "run", output(), Live(), parsed):
        plotter.plot(source, plot_title="deck")
        shown.add(capsys.readouterr().out)
    assert len(shown) == 1
    told = set()
    for source in (stored(tmp_path / "stored"), Watched(), Watched().source()):  # these also know why
        plotter.plot(source, plot_title="deck")
        told.add(capsys.readouterr().out)
    assert len(told) == 1
    assert told.pop().split("Undefined")[0] == shown.pop().split("Undefined")[0]


@pytest.mark.parametrize("name", ["nowhere", "nowhere.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(CockpitError, match=r"nowhere.* does not exist"):
        CockpitPlotter().plot(tmp_path / name)


def test_a_foreign_object_is_refused() -> None:
    with pytest.raises(CockpitError, match="source is int"):
        CockpitPlotter().plot(3)


# ---- what is shown


def test_discard(capsys: pytest.CaptureFixture[str]) -> None:
    CockpitPlotter().plot(output(), discard=4)
    assert "5 steps recorded, 0 to 4" in capsys.readouterr().out


def test_the_original_s_arguments_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    plotter = CockpitPlotter(secondary_screen=True)
    plotter.plot(output(), block=True, show_log_iter=True, plot_title="[title]", debug=True)
    assert capsys.readouterr().out.startswith("[title]: ")


def test_nothing_tracked_yet(capsys: pytest.CaptureFixture[str]) -> None:
    CockpitPlotter().plot({})
    assert "no step has been tracked yet" in capsys.readouterr().out


# ---- what is saved


def test_save_beside_the_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("vl_convert")
    CockpitPlotter().plot(str(log), show_plot=False, save_plot=True, savename_append="__end")
    assert capsys.readouterr().out == ""
    assert log.with_name("log__end.png").read_bytes().startswith(SIGNATURES["png"])


def test_save_into_the_run_s_folder(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    live = Watched()
    live.folder = tmp_path / "live"
    for source in (stored(tmp_path / "run"), live):
        CockpitPlotter().plot(source, show_plot=False, save_plot=True)
    assert (tmp_path / "run" / "digits.png").is_file()
    assert (tmp_path / "live" / "net.png").is_file()


@pytest.mark.parametrize("form", list(SIGNATURES))
def test_save_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    pytest.importorskip("vl_convert")
    CockpitPlotter().plot(output(), savedir=tmp_path / "new", save_plot=True, format=form)
    assert (tmp_path / "new" / f"cockpit.{form}").read_bytes().startswith(SIGNATURES[form])
    shown = capsys.readouterr().out
    assert "STEP SIZE" in shown
    assert f"cockpit.{form}" in shown.splitlines()[-1]


def test_the_second_page_is_added(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    for second in (False, True):
        plotter = CockpitPlotter(secondary_screen=second)
        plotter.plot(output(), tmp_path, show_plot=False, save_plot=True, savename_append=str(second), format="svg")
    found = {second: (tmp_path / f"cockpit{second}.svg").read_text() for second in (False, True)}
    assert "Early stopping" not in found[False]
    assert "Early stopping" in found[True]


def test_save_without_a_place_is_refused() -> None:
    with pytest.raises(CockpitError, match="savedir"):
        CockpitPlotter().plot(output(), save_plot=True)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match=r"format 'bmp'.*png"):
        CockpitPlotter().plot(output(), tmp_path, save_plot=True, format="bmp")
    assert not list(tmp_path.iterdir())


def test_without_the_library_that_draws(log: Path) -> None:
    """Text is shown all the same; a figure that cannot be saved says what to install."""
    code = (
        "import sys; sys.modules['vl_convert'] = None\n"
        "import cockpit\n"
        "cockpit.CockpitPlotter().plot('log')\n"
        "try: cockpit.CockpitPlotter().plot('log', save_plot=True)\n"
        "except cockpit.core.errors.CockpitError as error: print('refused:', error)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=log.parent, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "STEP SIZE" in done.stdout
    assert "refused: " in done.stdout
    assert "pip install 'cockpit-deck[plots]'" in done.stdout
    assert not list(log.parent.glob("*.png"))
