from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from tests.bench.sweep.studies import ODD, ODDS, STUDY, numbers, write
from tests.bench.sweep.test_commands import Call, cockpit, sweeping
from tests.results.sweeps.plans import PLAN, entry

from cockpit.bench.sweep.engine import Parcel
from cockpit.bench.sweep.making import Context
from cockpit.bench.sweep.slurm import ENDING, Slurm, take_in
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.store import Store, create

__all__ = ["cockpit"]


def test_results_that_nobody_took_in_are_committed(tmp_path: Path) -> None:
    store, folder = create(tmp_path / "a", PLAN), tmp_path / "parcels"
    folder.mkdir()
    specs = groups(PLAN)[0].oneshot()
    (folder / f"1{ENDING}").write_bytes(pickle.dumps((entry(specs[0]), entry(specs[1]))))
    take_in(folder, store)
    assert store.rows().keys() == {specs[0].id, specs[1].id}
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_jobs_give_the_numbers_of_this_process(cockpit: Call, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    file = write(tmp_path, STUDY.replace('"oneshot", 5', '"oneshot"').replace('"NAdam", ', ""))
    assert cockpit("sweep", file, "--workers", 0, "--out", "here").exit_code == 0
    with sweeping(file, "--on", "slurm:cluster=local", "--out", "there") as process:
        assert process.wait() == 0
    assert numbers(tmp_path / "there") == numbers(tmp_path / "here")
    assert not list((tmp_path / "there/parcels").glob(f"*{ENDING}"))


@pytest.mark.slow
def test_a_job_that_dies(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    file = write(tmp_path, ODDS.replace("[0, 1, 2, 4, 5]", "[0, 3]"), ODD)
    with sweeping(file, "--on", "slurm:cluster=local", "--out", "there") as process:
        assert process.wait() == 1
    (failure,) = Store(tmp_path / "there").records(state="failed")
    assert failure["message"].startswith("its worker died 3 times while the run was alone, the last time of state")


def test_the_script_that_slurm_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    programs = tmp_path / "bin"
    programs.mkdir()
    taken = tmp_path / "taken.sh"
    for name, does in (
        ("sbatch", f'cp "$1" {taken}; echo Submitted batch job 7'),
        ("srun", "true"),
        ("scancel", "true"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    context = Context((str(tmp_path),), str(tmp_path / "going"))
    engine = Slurm(context, 4, ["slurm_partition=gpu", "timeout_min=90"], tmp_path / "parcels")
    assert engine.slots == 4
    engine.send(Parcel(1, tuple(groups(PLAN)[0].oneshot())))
    lines = taken.read_text().splitlines()
    for line in ("--partition=gpu", "--time=90", "--cpus-per-task=1", "--job-name=cockpit"):
        assert f"#SBATCH {line}" in lines
    assert any("submitit.core._submit" in line for line in lines)
    engine.close()


def test_wrong_options(cockpit: Call, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    file = write(tmp_path)
    refused = cockpit("sweep", file, "--on", "slurm:fast")
    assert refused.exit_code == 2
    assert "--on slurm: 'fast' is not NAME=VALUE" in refused.stderr
    assert "unknown engine 'slrm'" in cockpit("sweep", file, "--on", "slrm").stderr
