from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from tests.bench.sweep.studies import ODD, ODDS, numbers, write
from tests.bench.sweep.test_commands import Call, cockpit

__all__ = ["cockpit"]


def kinds(told: dict[str, object]) -> dict[int, str]:
    failures = told["failures"]
    assert isinstance(failures, list)
    return {one["hyperparameters"]["kind"]: one["message"] for one in failures}


def test_failures_are_recorded_and_do_not_stop_a_sweep(cockpit: Call, tmp_path: Path) -> None:
    file = write(tmp_path, ODDS, ODD)
    done = cockpit("sweep", file, "--workers", 0, "--json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    assert told["state"] == "complete"
    assert told["runs"].items() >= {"distinct": 6, "finished": 3, "failed": 3, "left": 0}.items()
    said = kinds(told)
    assert "this kind is refused" in said[1]
    assert said[2].endswith("a bug in the optimizer")
    assert said[4] == "SystemExit: 3"
    folder = tmp_path / "runs/sweeps/study"
    db = sqlite3.connect(folder / "sweep.db")
    trace = "SELECT trace, attempts FROM result WHERE message LIKE '%a bug%'"
    ((text, attempts),) = db.execute(trace)
    db.close()
    assert 'my_opt.py", line' in text
    assert attempts == 2
    shown = json.loads(cockpit("report", folder, "--format", "json").stdout)
    (cell,) = shown["cells"]
    assert (cell["trial"], cell["seeds"]) == (0, [42, 43])
    assert not shown["missing"]
    assert cockpit("status", folder).exit_code == 1
    assert "failed: quadratic_deep my_opt:Odd lr=0.01 kind=2" in cockpit("status", folder).stdout
    assert not (folder / "going").exists()


def test_a_run_that_kills_its_worker(cockpit: Call, tmp_path: Path) -> None:
    file = write(tmp_path, ODDS.replace("[0, 1, 2, 4, 5]", "[0, 3]"), ODD)
    told = json.loads(cockpit("sweep", file, "--workers", 1, "--json").stdout)
    assert told["runs"].items() >= {"distinct": 3, "finished": 2, "failed": 1, "left": 0}.items()
    assert kinds(told) == {3: "its worker died 3 times while the run was alone, the last time of signal 11 (SIGSEGV)"}


def test_failed_runs_are_trained_again_only_when_asked_for(cockpit: Call, tmp_path: Path) -> None:
    text = ODDS.replace("[0, 1, 2, 4, 5]", "[0, 2]")
    unfinished = ODD.replace("self.kind == 2", "self.kind == 2 and not os.path.exists('mended')")
    file = write(tmp_path, text, unfinished)
    assert json.loads(cockpit("sweep", file, "--workers", 0, "--json").stdout)["runs"]["failed"] == 1
    (tmp_path / "mended").touch()
    assert cockpit("sweep", file, "--workers", 0).exit_code == 1
    again = cockpit("sweep", file, "--workers", 0, "--retry-failed", "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["runs"].items() >= {"finished": 3, "failed": 0}.items()


def test_everything_fails(cockpit: Call, tmp_path: Path) -> None:
    file = write(tmp_path, ODDS.replace("[0, 1, 2, 4, 5]", "[2]"), ODD)
    done = cockpit("sweep", file, "--workers", 0, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["runs"].items() >= {"finished": 0, "failed": 2}.items()
    assert cockpit("report", file, "--format", "json").exit_code == 2


def test_the_others_of_a_pack_keep_their_bits(cockpit: Call, tmp_path: Path) -> None:
    with_failures = write(tmp_path, ODDS, ODD)
    assert cockpit("sweep", with_failures, "--workers", 0, "--out", "all").exit_code == 1
    without = write(tmp_path, ODDS.replace("[0, 1, 2, 4, 5]", "[0, 5]"), ODD)
    assert cockpit("sweep", without, "--workers", 0, "--out", "good").exit_code == 0
    good, found = numbers(tmp_path / "good"), numbers(tmp_path / "all")
    assert good == {id: found[id] for id in good}
