from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.bench.sweep.studies import RUNS, numbers, write

from cockpit.bench.commands import bench
from cockpit.bench.sweep.living import held
from cockpit.cli import Commands

Call = Callable[..., Result]


@pytest.fixture
def cockpit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line, in an empty folder."""
    monkeypatch.delitem(sys.modules, "my_opt", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path / "runs"))
    main = Commands("cockpit")
    main.add_command(bench)

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(main, ["bench", *map(str, arguments)])

    return call


def test_the_whole_way(cockpit: Call, tmp_path: Path) -> None:
    file, folder = write(tmp_path), tmp_path / "runs/sweeps/study"
    planned = cockpit("sweep", file, "--dry-run", "--json")
    assert planned.exit_code == 0, planned.output
    told = json.loads(planned.stdout)
    assert told.items() >= {"name": "study", "cells": 6, "seconds": None}.items()
    assert told["runs"] == {"nominal": RUNS, "stored": 0, "to_do": RUNS}
    assert not folder.exists()
    before = cockpit("status", file, "--json")
    assert before.exit_code == 3
    assert cockpit("status", folder).exit_code == 2
    assert cockpit("report", file, "--format", "json").exit_code == 2

    done = cockpit("sweep", file, "--workers", 0, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["state"] == "complete"
    assert told["runs"]["finished"] + told["runs"]["diverged"] == told["runs"]["distinct"] <= RUNS
    for what in (file, folder):
        again = cockpit("status", what, "--runs", "--json")
        assert again.exit_code == 0
        assert json.loads(again.stdout).items() >= told.items()
        assert len(json.loads(again.stdout)["results"]) == told["runs"]["distinct"]
        shown = json.loads(cockpit("report", what, "--format", "json").stdout)
        assert not shown["missing"]
        assert len(shown["cells"]) == 6
    cells = {(cell["optimizer"], cell["budget"]): cell for cell in shown["cells"]}
    oneshot, tuned = cells["my_opt:SignMom", "oneshot"], cells["my_opt:SignMom", "5"]
    assert oneshot["hyperparameters"] == {"lr": 1e-3, "beta": 0.9}
    assert oneshot["trial"] is None
    assert oneshot["seeds"] == tuned["seeds"] == [42, 43, 44]
    assert tuned["trial"] in range(5)
    assert math.isclose(tuned["mean"], sum(tuned["values"]) / 3)
    assert tuned["epoch"] == 2
    assert list(oneshot) == [
        *("problem", "optimizer", "budget", "schedule", "tuning_seed", "metric", "mean", "std", "values", "train"),
        *("seeds", "diverged", "hyperparameters", "trial", "epoch", "validation", "published"),
    ]


def test_a_sweep_that_is_complete_trains_nothing(cockpit: Call, tmp_path: Path) -> None:
    file = write(tmp_path)
    assert cockpit("sweep", file, "--workers", 0).exit_code == 0
    database = tmp_path / "runs/sweeps/study/sweep.db"
    before = database.read_bytes()
    assert json.loads(cockpit("sweep", file, "--dry-run", "--json").stdout)["runs"]["to_do"] == 0
    assert cockpit("sweep", file, "--workers", 0).exit_code == 0
    assert database.read_bytes() == before


def test_example_is_a_study_file(cockpit: Call, tmp_path: Path) -> None:
    example = cockpit("sweep", "--example")
    assert example.exit_code == 0
    file = tmp_path / "study.toml"
    file.write_text(example.stdout)
    planned = json.loads(cockpit("sweep", file, "--dry-run", "--json").stdout)
    assert planned["name"] == "mine"
    assert (planned["cells"], planned["runs"]["nominal"]) == (4, 2 * (10 + 25 + 9))


def test_one_sweep_at_a_time(cockpit: Call, tmp_path: Path) -> None:
    file, folder = write(tmp_path), tmp_path / "runs/sweeps/study"
    assert cockpit("sweep", file, "--workers", 0).exit_code == 0
    with held(folder):
        second = cockpit("sweep", file, "--json")
        assert second.exit_code == 4
        assert "process" in second.stderr
        assert json.loads(second.stdout)["state"] == "running"
    assert cockpit("sweep", file, "--workers", 0).exit_code == 0


@contextmanager
def sweeping(file: Path, workers: int = 2) -> Iterator[subprocess.Popen[bytes]]:
    """A sweep in a process of its own."""
    command = [sys.executable, "-m", "cockpit", "bench", "sweep", str(file), "--workers", str(workers)]
    environment = os.environ | {"COCKPIT_RUNS": "runs"}
    with subprocess.Popen(command, cwd=file.parent, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_killed_and_resumed(tmp_path: Path) -> None:
    whole, part = write(tmp_path / "whole"), write(tmp_path / "part")
    folder = part.parent / "runs/sweeps/study"
    with sweeping(whole) as undisturbed, sweeping(part) as killed:
        while not (folder / "sweep.db").exists() or not numbers(folder):
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
        assert undisturbed.wait() == 0
    with sweeping(part) as resumed:
        assert resumed.wait() == 0
    assert numbers(folder) == numbers(whole.parent / "runs/sweeps/study")
