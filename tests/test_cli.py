"""The command line, in this process and as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.plots.samples import frame, stored
from tests.running import python

from cockpit import __version__, store
from cockpit.cli import main
from cockpit.core.kinds import Kind
from cockpit.core.record import Record


def test_version() -> None:
    shown = CliRunner().invoke(main, ["--version"])
    assert shown.exit_code == 0
    assert shown.output == f"cockpit, version {__version__}\n"


def test_help_names_the_commands() -> None:
    for option in ("--help", "-h"):
        shown = CliRunner().invoke(main, [option])
        assert shown.exit_code == 0
        for command in ("demo", "show", "plot", "export", "ui"):
            assert f"\n  {command} " in shown.output


@pytest.mark.parametrize("command", ["demo", "show", "plot", "export", "ui"])
def test_every_command_explains_itself(command: str) -> None:
    shown = CliRunner().invoke(main, [command, "--help"])
    assert shown.exit_code == 0
    assert "--help" in shown.output


def test_help_is_fast() -> None:
    """What is heavy is loaded by the command that needs it."""
    code = "import sys; from cockpit.cli import main; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    assert "click" in loaded
    assert not loaded & {"numpy", "rich", "torch", "cockpit.plots", "cockpit.store", "cockpit.dashboard"}


BAD = [
    ["fly"],
    ["demo", "--steps", "0"],
    ["demo", "--seed", "-1"],
    ["show", "nowhere"],
    ["show", "nowhere", "--json"],
    ["plot", "nowhere", "-o", "a.png"],
    ["plot", "nowhere", "-o", "a.png", "--theme", "pink"],
    ["plot", "nowhere", "-o", "a.png", "--smooth", "1"],
    ["export", "nowhere", "--to", "csv"],
    ["export", "nowhere"],
    ["export", "nowhere", "--to", "xls"],
    ["ui", "--port", "70000"],
]


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_arguments(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 2
    assert "Error: " in shown.stderr
    assert "Traceback" not in shown.stderr
    assert not shown.stdout
    assert not list(tmp_path.iterdir())


# ---- runs


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one run in ``runs``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COCKPIT_RUNS", raising=False)
    return stored(tmp_path / "runs" / "first")


def said(*arguments: str) -> str:
    shown = CliRunner().invoke(main, list(arguments))
    assert shown.exit_code == 0, shown.output
    return shown.stdout


@pytest.mark.parametrize(
    "arguments", [["show"], ["show", "runs"], ["show", "runs/first"], ["show", "runs/first", "-f"]]
)
def test_show(here: Path, arguments: list[str]) -> None:
    assert "digits" in said(*arguments)


@pytest.mark.parametrize("arguments", [["--json"], ["runs/first", "--json"], ["--json", "--follow"]])
def test_show_as_json(here: Path, arguments: list[str]) -> None:
    facts = json.loads(said("show", *arguments))
    assert (facts["state"], facts["step"]) == ("finished", 9)


def test_plot(here: Path) -> None:
    pytest.importorskip("vl_convert")
    options = ["--panel", "loss", "--panel", "grad-norm", "--title", "t", "--theme", "dark", "--log", "--step", "3"]
    more = ["--from", "1", "--to", "8", "--smooth", "0.5", "--layers", "0", "--scale", "1"]
    assert said("plot", "runs/first", "-o", "deck.svg", *options, *more).startswith("deck.svg  ")
    assert Path("deck.svg").read_text().startswith("<svg")
    said("plot", "-o", "newest.png", "--panel", "loss")
    assert Path("newest.png").is_file()
    assert "grad-norm " in said("plot", "--list")


def test_export(here: Path) -> None:
    lines = said("export", "runs/first", "--to", "csv").splitlines()
    assert lines[0].startswith(str(Path("digits-csv") / "scalars.csv"))
    refused = CliRunner().invoke(main, ["export", "runs/first", "--to", "csv"])
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    said("export", "runs/first", "--to", "csv", "--force")
    assert said("export", "runs/first", "--to", "json", "-o", "log.json").startswith("log.json  ")
    assert "Loss" in said("show", "log")


def test_an_export_of_a_damaged_run_says_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not CliRunner().invoke(main, ["export", "runs/first", "--to", "csv"]).stderr
    monkeypatch.setattr(store.StoredRun, "damaged", "3 records are damaged and left out")
    shown = CliRunner().invoke(main, ["export", "runs/first", "--to", "csv", "-o", "out"])
    assert shown.exit_code == 0
    assert shown.stderr == (
        f"Warning: {Path('runs/first')} is damaged; the export lacks what could not be read: "
        "3 records are damaged and left out\n"
    )
    assert json.loads(Path("out/metadata.json").read_text())["damaged"] == "3 records are damaged and left out"


def test_notes_go_beside_the_answer(here: Path) -> None:
    pytest.importorskip("vl_convert")
    shown = CliRunner().invoke(main, ["plot", "-o", "a.svg", "--panel", "hist1d", "--step", "9999"])
    assert shown.stdout.startswith("a.svg  ")
    assert shown.stderr == "digits: --step 9999 was not recorded; step 9, the last one, is shown\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_names_that_the_terminal_cannot_show(tmp_path: Path, encoding: str) -> None:
    writer = store.create(tmp_path / "runs" / "läuft", {"name": "läuft"})
    writer.append([Record(0, name, Kind.SCALAR, 1.0) for name in ("ümlaut", "日本", "half\ud800")])
    writer.close()
    for arguments in (["export", "runs/läuft", "--to", "csv"], ["show"], ["show", "runs"], ["show", "-f"]):
        done = subprocess.run(
            [sys.executable, "-m", "cockpit", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": encoding, "COCKPIT_RUNS": "runs"},
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        if arguments[0] == "show":
            assert ("läuft" if encoding == "latin-1" else "l?uft") in done.stdout.decode(encoding)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "command",
    [
        "show runs/first",
        "show runs",
        "show runs/first --json",
        "show runs/first --follow",
        "plot --list",
        "export runs/first --to csv",
        "--help",
        "show --help",
        "--version",
    ],
)
def test_an_output_that_is_full(here: Path, tmp_path: Path, command: str) -> None:
    line = f"{sys.executable} -m cockpit {command} > /dev/full"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "Error: cannot read or write: No space left on device"
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="devices of Unix")
@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "runs/first", "--to", "csv", "-o", "/dev/null"],
        ["export", "runs/first", "--to", "csv", "-o", "/dev/null/x"],
        ["plot", "-o", "/dev/null/y.png", "--panel", "loss"],
        ["plot", "-o", "runs/../taken.png", "--panel", "loss"],
        ["plot", "--gif", "/dev/null/y.gif", "--panel", "loss"],
    ],
    ids=" ".join,
)
def test_places_that_take_nothing(here: Path, arguments: list[str]) -> None:
    Path("taken.png").mkdir()
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 2
    assert shown.stderr.startswith("Error: ")
    assert "Traceback" not in shown.stderr


def test_a_defect_of_ours_is_not_hidden(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("cockpit.plots.terminal.present", broken)
    assert isinstance(CliRunner().invoke(main, ["show"]).exception, ZeroDivisionError)


def test_an_error_of_the_system_is_an_answer(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "runs/first")

    monkeypatch.setattr("cockpit.plots.terminal.present", broken)
    shown = CliRunner().invoke(main, ["show"])
    assert (shown.exit_code, shown.stderr) == (2, "Error: runs/first: Permission denied\n")


def test_ui(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvicorn")
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr("cockpit.dashboard.server.serve", lambda *arguments: calls.append(arguments))
    said("ui")
    said("ui", "elsewhere", "--host", "0.0.0.0", "--port", "7000", "--token", "t", "--no-browser")
    assert calls == [
        (Path("runs"), "127.0.0.1", None, None, True),
        (Path("elsewhere"), "0.0.0.0", 7000, "t", False),
    ]


@pytest.mark.skipif(os.name == "nt", reason="pipes of Unix")
def test_a_reader_that_leaves_is_no_error(here: Path) -> None:
    command = f"{sys.executable} -m cockpit show runs/first --json | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, encoding="utf-8")
    assert done.stdout == "{\n"
    assert not done.stderr


def followed(folder: Path) -> tuple[store.Writer, subprocess.Popen[str]]:
    """A run that goes on, and a process that follows it and has said so."""
    writer = store.create(folder / "a", {"name": "running"})
    writer.append(frame(0))
    follow = subprocess.Popen(
        [sys.executable, "-u", "-m", "cockpit", "show", "a", "--follow"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert follow.stdout is not None
    assert follow.stdout.readline().startswith("running, running, ")
    return writer, follow


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_an_interrupt_ends_following_quietly(tmp_path: Path) -> None:
    writer, follow = followed(tmp_path)
    follow.send_signal(signal.SIGINT)
    _, errors = follow.communicate(timeout=60)
    writer.close()
    assert follow.returncode == 0
    assert not errors


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be deleted there")
def test_a_run_that_is_deleted_ends_following(tmp_path: Path) -> None:
    writer, follow = followed(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    try:
        _, errors = follow.communicate(timeout=60)
    finally:
        follow.kill()
        writer.close()
    assert follow.returncode == 2
    assert errors == "Error: a is gone: its folder was moved or deleted while it was followed\n"


# ---- demo


def test_demo_ends_by_itself_and_shows_everything(tmp_path: Path) -> None:
    done = python("-m", "cockpit", "demo", "--steps", "12", "--no-browser", "--run", "mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    for name in ("STEP SIZE", "Alpha", "GRADIENTS", "GradHist2d", "CURVATURE", "HessMaxEV", "PERFORMANCE", "accuracy"):
        assert name in done.stdout
    assert "Live page: http://127.0.0.1:" in done.stdout
    assert "- The loss " in done.stdout
    assert "\x1b" not in done.stdout, "no colours where nobody looks"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine" / "deck.png").read_bytes().startswith(b"\x89PNG")
    run = store.StoredRun(tmp_path / "mine")
    assert (run.state, run.metadata["steps"], len(run.scalar("Loss"))) == ("finished", 12, 12)


def test_demo_without_a_page(tmp_path: Path) -> None:
    done = python("-m", "cockpit", "demo", "--steps", "2", "--headless", cwd=tmp_path, COCKPIT_RUNS="here")
    assert done.returncode == 0, done.stderr
    assert "Live page" not in done.stdout
    assert len(store.runs(tmp_path / "here")) == 1


def test_demo_where_only_ascii_can_be_shown(tmp_path: Path) -> None:
    done = python("-m", "cockpit", "demo", "--steps", "4", "--headless", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_interrupt_ends_the_demo_cleanly(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "cockpit", "demo", "--steps", "1000000", "--no-browser"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert demo.stdout is not None
    assert demo.stdout.readline().startswith("Training")
    time.sleep(2)  # past the imports of the first steps
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode in (1, -signal.SIGINT)
    assert errors.strip() == "Aborted!"
