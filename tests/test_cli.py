"""The command line, in this process and as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.running import python

from cockpit import __version__
from cockpit.cli import main


def test_version() -> None:
    shown = CliRunner().invoke(main, ["--version"])
    assert shown.exit_code == 0
    assert shown.output == f"cockpit, version {__version__}\n"


def test_help_names_the_commands() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    assert "demo" in shown.output


@pytest.mark.parametrize("arguments", [["fly"], ["demo", "--steps", "0"], ["demo", "--seed", "-1"]])
def test_bad_arguments(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_demo_ends_by_itself_and_shows_everything(tmp_path: Path) -> None:
    done = python("-m", "cockpit", "demo", "--steps", "12", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    for name in ("STEP SIZE", "Alpha", "GRADIENTS", "GradHist2d", "CURVATURE", "HessMaxEV", "PERFORMANCE", "accuracy"):
        assert name in done.stdout
    assert "Individual gradients cover all parameters." in done.stdout
    assert "\x1b" not in done.stdout, "no colours where nobody looks"
    assert not list(tmp_path.iterdir())


def test_demo_where_only_ascii_can_be_shown(tmp_path: Path) -> None:
    done = python("-m", "cockpit", "demo", "--steps", "4", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_interrupt_ends_the_demo_cleanly(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "cockpit", "demo", "--steps", "1000000"],
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
