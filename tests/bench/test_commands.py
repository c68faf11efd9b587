from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.running import ROOT, python

from cockpit import problems
from cockpit.bench import listing, working
from cockpit.bench.commands import bench
from cockpit.cli import Commands
from cockpit.problems.data.sample import write_sample
from cockpit.results import folder as results
from cockpit.run import open_run

SCRIPT = """
from cockpit.cli import Commands
from cockpit.bench.commands import bench
main = Commands("cockpit")
main.add_command(bench)
main()
"""


@pytest.fixture
def cockpit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COCKPIT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COCKPIT_DATA", str(tmp_path / "data"))
    main = Commands("cockpit")
    main.add_command(bench)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["bench", *arguments])

    return call


def test_train_with_several_seeds(cockpit: Callable[..., Result], tmp_path: Path) -> None:
    done = cockpit("run", "quadratic_deep", "--lr", "0.01", "--epochs", "2", "--seeds", "2")
    assert done.exit_code == 0, done.output
    found = {one.seed: one for one in results.find(tmp_path / "runs/bench")}
    assert sorted(found) == [42, 43]
    assert "quadratic_deep SGD lr 0.01 seeds 42 to 43  epoch 2/2  train loss" in done.stderr
    final = [found[seed].curves["test_loss"][-1] for seed in (42, 43)]
    mean, half = sum(final) / 2, abs(final[0] - final[1]) / 2
    assert f"{mean:.5g} ± {half:.2g}" in done.stdout
    again = cockpit("run", "quadratic_deep", "--lr", "0.01", "--epochs", "2", "--seed", "43")
    assert "seed_43: already there; --again trains it anew" in again.stderr
    assert f"{final[1]:.5g}" in again.stdout


def test_all_options(cockpit: Callable[..., Result], tmp_path: Path) -> None:
    write_sample("mnist", tmp_path / "elsewhere", samples=96)
    line = (
        "run mnist_logreg -o Momentum --lr 0.05 --set momentum=0.9 --seed 7 --epochs 2 --batch-size 8 --l2 0.001 "
        "--schedule cosine --watch economy --every 2 --out there --data-dir elsewhere --no-download --device cpu "
        "--amp bf16 --order fixed --no-validation --log-interval 3"
    )
    done = cockpit(*line.split())
    assert done.exit_code == 0, done.output
    (one,) = results.find(tmp_path / "there")
    assert one.hyperparameters == {"lr": 0.05, "momentum": 0.9}
    assert one.variant == {"validation": False, "order": "fixed", "l2": 0.001, "amp": "bf16"}
    assert (one.seed, one.epochs, one.batch_size, one.schedule, one.log_interval) == (7, 2, 8, "cosine", 3)
    (folder,) = (tmp_path / "there" / "mnist_logreg" / "Momentum").iterdir()
    expected = "lr_5e-02__momentum_0.9__epochs_2__batch_8__schedule_cosine__order_fixed__no_validation__l2_0.001"
    assert folder.name == f"{expected}__amp_bf16"
    assert "GradNorm" in open_run(folder / "seed_7")
    assert "%" in done.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run quadratic_dep", "did you mean 'quadratic_deep'"),
        ("run quadratic_deep --seeds 2 --seed 1", "not both"),
        ("run quadratic_deep --every 2", "--watch"),
        ("run quadratic_deep --seeds 0", "--seeds"),
        ("run quadratic_deep -o Adan", "unknown optimizer 'Adan'"),
        ("run quadratic_deep --set momentum", "momentum"),
        ("run quadratic_deep --lr 0.1 --set lr=0.2", "lr is given twice, as 0.1 and 0.2"),
        ("run quadratic_deep --batch-size 5000", "batch size 5000: the train data have 1000 samples"),
        ("run quadratic_deep --schedule straight", "unknown schedule 'straight'"),
        ("run quadratic_deep --amp fp16 --device cpu", "fp16 needs a CUDA device"),
        ("run quadratic_deep --label-leak", "quadratic_deep has no variant label_leak: it is for cifar100_"),
        ("run mnist_mlp --hessian 3", "mnist_mlp has no variant hessian: it is for quadratic_deep"),
        ("run mnist_mlp --not-held-out", "mnist_mlp has no variant held_out: it is for cifar10_ and svhn_"),
        ("run cifar10_3c3d --cut", "cifar10_3c3d has no variant cut: it is for svhn_"),
        ("run tolstoi_gpt --whole-eval", "tolstoi_gpt has no variant whole_eval: it is for tolstoi_char_rnn"),
        ("run quadratic_deep --l2 0.1", "quadratic_deep has no weights for an L2 term, but l2 is 0.1; leave it out"),
        ("run two_d_beale", "--epochs"),
        ("run mnist_mlp --no-download", "downloading is switched off"),
    ],
)
def test_wrong_input(cockpit: Callable[..., Result], tmp_path: Path, line: str, message: str) -> None:
    done = cockpit(*line.split())
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert not (tmp_path / "runs").exists()


def test_a_diverged_run_is_said(cockpit: Callable[..., Result]) -> None:
    done = cockpit("run", "quadratic_deep", "--lr", "100", "--epochs", "3")
    assert done.exit_code == 0
    assert "diverged in epoch 1" in done.stderr
    assert "1 (1 diverged)" in done.stdout


def test_a_group(cockpit: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "group", lambda name: ("quadratic_deep", "two_d_branin"))
    done = cockpit("run", "small", "--lr", "0.001", "--epochs", "1", "--batch-size", "500", "--hessian", "2")
    assert done.exit_code == 0, done.output
    assert {one.problem: one.variant for one in results.find(tmp_path)} == {
        "quadratic_deep": {"hessian": 2},
        "two_d_branin": {},  # which has no such matrix
    }
    assert [line.split()[0] for line in done.stdout.splitlines()[3:5]] == ["quadratic_deep", "two_d_branin"]


def test_what_cannot_be_trained_does_not_stop_a_group(
    cockpit: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problems, "group", lambda name: ("svhn_3c3d", "quadratic_deep"))
    done = cockpit("run", "small", "--lr", "0.001", "--epochs", "1", "--no-download")
    assert done.exit_code == 2
    assert "svhn_3c3d was left out: no data for 'svhn'" in done.stderr
    assert [one.problem for one in results.find(tmp_path)] == ["quadratic_deep"]
    assert "quadratic_deep" in done.stdout


def test_list(cockpit: Callable[..., Result], tmp_path: Path) -> None:
    write_sample("mnist", tmp_path / "data")
    (tmp_path / "data" / "svhn").mkdir()
    found = {row["name"]: row for row in json.loads(cockpit("list", "--json").stdout)["problems"]}
    assert set(found) == set(problems.names())
    known = found["fmnist_2c2d"]
    assert (known["parameters"], known["batch_size"], known["epochs"]) == (3_274_634, 128, 100)
    assert (known["group"], known["paper"], known["data_there"]) == ("small", "P3", False)
    assert found["mnist_vae"]["data_there"] is True
    assert found["svhn_3c3d"]["data_there"] is False
    assert found["quadratic_deep"]["data_there"] is None
    lines = cockpit("list").stdout.splitlines()
    (line,) = [line for line in lines if "cifar10_3c3d" in line]
    assert line.split() == ["cifar10_3c3d", "895,210", "128", "100", "82.83%", "small", "missing"]


def test_every_problem_has_its_data_named(tmp_path: Path) -> None:
    """A problem that is not in the table must need no files."""
    from cockpit.problems._base import Place, Variant

    unnamed = [name for name in problems.names() if name.split("_")[0] not in listing.DATA]
    assert "quadratic_deep" in unnamed
    for name in unnamed:
        problems.get(name).data(Place(tmp_path, download=False), Variant())


def test_ctrl_c_in_the_middle(cockpit: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(working, "work", interrupted)
    done = cockpit("run", "quadratic_deep")
    assert done.exit_code == 130
    assert done.stderr == "Stopped. Run the same command to continue.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to another process")
def test_ctrl_c_of_a_process(tmp_path: Path) -> None:
    line = [sys.executable, "-W", "error", "-c", SCRIPT, "bench", "run", "quadratic_deep", "--epochs", "100000"]
    environment = {**os.environ, "COCKPIT_RUNS": str(tmp_path), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for said in process.stderr:
            if "epoch 3/" in said:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(30) == 130
    assert rest.splitlines()[-1] == "Stopped. Run the same command to continue."
    assert "Traceback" not in rest
    (folder,) = (path.parent for path in tmp_path.rglob("run.db"))
    assert (open_run(folder).state, open_run(folder).reason) == ("crashed", "KeyboardInterrupt")


def test_the_commands_load_nothing_heavy(tmp_path: Path) -> None:
    heavy = "{'torch', 'numpy', 'rich', 'cockpit.problems'}"
    code = f"import sys, cockpit.bench.commands; print(sorted({heavy} & set(sys.modules)))"
    assert python("-c", code, cwd=tmp_path).stdout == "[]\n"
