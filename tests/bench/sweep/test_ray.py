from __future__ import annotations

from pathlib import Path

import pytest
from tests.bench.sweep.studies import ODD, ODDS, numbers, write
from tests.bench.sweep.test_commands import Call, cockpit, sweeping

from cockpit.results.sweeps.store import Store

__all__ = ["cockpit"]
pytest.importorskip("ray")


@pytest.mark.slow
def test_two_workers_give_the_numbers_of_this_process(cockpit: Call, tmp_path: Path) -> None:
    file = write(tmp_path)
    assert cockpit("sweep", file, "--workers", 0, "--out", "here").exit_code == 0
    with sweeping(file, "--on", "ray", "--out", "there") as process:
        assert process.wait() == 0
    assert numbers(tmp_path / "there") == numbers(tmp_path / "here")


@pytest.mark.slow
def test_a_run_that_kills_its_worker(tmp_path: Path) -> None:
    file = write(tmp_path, ODDS.replace("[0, 1, 2, 4, 5]", "[0, 3]"), ODD)
    with sweeping(file, "--on", "ray", "--out", "there") as process:
        assert process.wait() == 1
    (failure,) = Store(tmp_path / "there").records(state="failed")
    assert "its worker died 3 times while the run was alone" in failure["message"]
