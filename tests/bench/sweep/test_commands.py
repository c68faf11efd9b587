from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.bench.sweep.studies import OPTIMIZER, RUNS, SLOW, STUDY, numbers, write
from tests.running import ROOT, python

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


def test_a_changed_study_is_another_question(cockpit: Call, tmp_path: Path) -> None:
    file, folder = write(tmp_path), tmp_path / "runs/sweeps/study"
    assert "Note" not in cockpit("sweep", file, "--workers", 0).stderr
    before = numbers(folder)
    write(tmp_path, STUDY.replace('"SGD", ', ""))
    less = cockpit("sweep", file, "--workers", 0)
    assert "the study has changed: 10 results of earlier sweeps stay stored, but are not reported" in less.stderr
    assert numbers(folder) == before
    assert {one["optimizer"] for one in json.loads(cockpit("report", folder, "--format", "json").stdout)["cells"]} == {
        "NAdam",
        "my_opt:SignMom",
    }
    write(tmp_path)
    assert "Note" not in cockpit("sweep", file, "--workers", 0).stderr
    assert numbers(folder) == before


def test_changed_code_makes_new_runs_beside_the_old(cockpit: Call, tmp_path: Path) -> None:
    file, folder = write(tmp_path), tmp_path / "runs/sweeps/study"
    assert cockpit("sweep", file, "--workers", 0).exit_code == 0
    before = numbers(folder)
    sys.modules.pop("my_opt")
    write(tmp_path, optimizer=OPTIMIZER.replace("m.sign()", "m"))
    again = cockpit("sweep", file, "--workers", 0)
    assert "optimizer my_opt:SignMom has changed: its runs are made anew" in again.stderr
    after = numbers(folder)
    assert after.items() >= before.items()
    assert len(after) == len(before) + 10


def test_the_example_of_the_docs(cockpit: Call, tmp_path: Path) -> None:
    page = (ROOT / "docs/bench.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```python runnable\n(.*?)```", page, re.DOTALL) if "SignMom" in block]
    (study,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    short = study.replace('"small"', "2").replace("schedules", "seeds = 2\nschedules")
    file = write(tmp_path, short + "[problem.quadratic_deep]\nepochs = 1\n", code)
    assert cockpit("sweep", file, "--workers", 0).exit_code == 0
    assert len(json.loads(cockpit("report", file, "--format", "json").stdout)["cells"]) == 16
    planned = json.loads(cockpit("sweep", write(tmp_path, study, code), "--dry-run", "--json").stdout)
    assert (planned["cells"], planned["runs"]["nominal"]) == (16, 352)


def test_status_and_report_of_a_folder_need_no_torch(cockpit: Call, tmp_path: Path) -> None:
    assert cockpit("sweep", write(tmp_path), "--workers", 0).exit_code == 0
    script = tmp_path / "script.py"
    script.write_text(
        """
import sys
from click.testing import CliRunner
from cockpit.bench.commands import bench
for command in (["status", "--json", "--runs"], ["report", "--format", "json"]):
    done = CliRunner().invoke(bench, [*command, "runs/sweeps/study"])
    assert done.exit_code == 0, done.output
assert "torch" not in sys.modules
"""
    )
    done = python(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_missing_data_are_said_before_anything_is_written(cockpit: Call, tmp_path: Path) -> None:
    file = write(tmp_path, 'problems = ["mnist_logreg"]\noptimizers = ["SGD"]\n')
    refused = cockpit("sweep", file, "--no-download", "--data-dir", tmp_path / "none", "--json")
    assert refused.exit_code == 2
    assert "no data for 'mnist': downloading is switched off" in refused.stderr
    assert not (tmp_path / "runs").exists()


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
def sweeping(file: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A sweep in a process of its own, with two workers."""
    command = [sys.executable, "-m", "cockpit", "bench", "sweep", str(file), "--workers", "2", *options]
    environment = os.environ | {"COCKPIT_RUNS": "runs"}
    with subprocess.Popen(command, cwd=file.parent, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_stopped_by_hand(tmp_path: Path) -> None:
    file = write(tmp_path, optimizer=SLOW)
    folder = tmp_path / "runs/sweeps/study"
    with sweeping(file) as stopped:
        until_there_is_something(stopped, folder)
        stopped.send_signal(signal.SIGINT)
        assert stopped.wait() == 130
    told = CliRunner().invoke(bench, ["status", str(folder), "--json"])
    assert told.exit_code == 3
    assert json.loads(told.stdout)["state"] == "stopped"


def until_there_is_something(process: subprocess.Popen[bytes], folder: Path, more_than: int = 0) -> None:
    while not (folder / "sweep.db").exists() or len(numbers(folder)) <= more_than:
        assert process.poll() is None
        time.sleep(0.01)


def workers(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes that a sweep has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """The sweep three times, workers twice; what is there at the end is what an undisturbed sweep makes."""
    drawn = random.Random(0)
    whole, part = write(tmp_path / "whole", optimizer=SLOW), write(tmp_path / "part", optimizer=SLOW)
    folder = part.parent / "runs/sweeps/study"
    with sweeping(whole) as undisturbed:
        for victim in ("sweep", "worker", "sweep", "worker", "sweep"):
            before = len(numbers(folder)) if (folder / "sweep.db").exists() else -1
            with sweeping(part) as killed:
                until_there_is_something(killed, folder, min(before, RUNS - 10))
                time.sleep(drawn.random() * 0.3)
                if victim == "worker" and workers(killed):
                    os.kill(drawn.choice(workers(killed)), signal.SIGKILL)
                    time.sleep(0.5)
                left_alone = workers(killed)
                killed.kill()
            deadline = time.monotonic() + 20
            while any(Path(f"/proc/{pid}/cmdline").exists() for pid in left_alone):
                assert time.monotonic() < deadline, "a worker outlives its sweep"
                time.sleep(0.05)
        assert undisturbed.wait() == 0
    with sweeping(part) as resumed:
        assert resumed.wait() == 0
    assert numbers(folder) == numbers(whole.parent / "runs/sweeps/study")


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    file = write(tmp_path, optimizer=SLOW)
    folder = tmp_path / "runs/sweeps/study"
    with sweeping(file) as process:
        until_there_is_something(process, folder)
        for pid in workers(process):
            os.kill(pid, signal.SIGKILL)
        assert process.wait() == 0
    told = CliRunner().invoke(bench, ["status", str(folder), "--json"])
    assert json.loads(told.stdout)["runs"].items() >= {"failed": 0, "left": 0}.items()


def test_the_study_of_five_minutes(cockpit: Call) -> None:
    planned = json.loads(cockpit("sweep", ROOT / "examples" / "five_minutes.toml", "--dry-run", "--json").stdout)
    assert (planned["cells"], planned["runs"]["nominal"]) == (57, 57 * 26)
