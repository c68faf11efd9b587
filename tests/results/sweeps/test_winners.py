"""Winners at the edge, and the command that trains each alone."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.results.sweeps.plans import PLAN, QUADRATIC, SGD, entry, plan
from tests.results.sweeps.test_cells import filled

from cockpit.results.sweeps.plan import Contender, SweepPlan, Task
from cockpit.results.sweeps.reading import Reading, read
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.spaces import axes
from cockpit.results.sweeps.winners import edges, winners
from cockpit.results.tables import number


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ({"log": [1e-4, 1.0]}, 0.7, "upper"),  # 10 ** -0.2 is 5% below the upper edge
        ({"log": [1e-4, 1.0]}, 0.6, None),
        ({"log": [1e-4, 1.0]}, 1.5e-4, "lower"),
        ({"log1m": [1e-4, 1.0]}, 0.9999, "upper"),  # 1 - value is at its least
        ({"log1m": [1e-4, 1.0]}, 0.999, None),
        ({"log1m": [1e-4, 1.0]}, 0.1, "lower"),
        ({"uniform": [0.0, 10.0]}, 0.4, "lower"),
        ({"uniform": [0.0, 10.0]}, 0.6, None),
        ({"int": [1, 20]}, 20, "upper"),
        ({"int": [1, 20]}, 19, None),
        ({"choice": [1.0, 2.0]}, 1.0, None),
        (3.0, 3.0, None),
    ],
)
def test_within_five_per_cent_of_the_edge(entry: Any, value: float, said: str | None) -> None:
    found = edges(axes({"lr": entry}), {"lr": value, "eps": 1e-8})
    assert found == ([] if said is None else [f"lr {number(value)} at the {said} edge"])


def reading(folder: Path, wanted: SweepPlan, make: Any = entry) -> Reading:
    return read(filled(folder, wanted, make))


def test_a_refined_setting_has_the_box_it_was_drawn_from(tmp_path: Path) -> None:
    def make(spec: Spec) -> Any:
        rate = spec.hyperparameters["lr"]
        return entry(spec, valid=abs(rate - 0.1))

    found = reading(tmp_path, plan(budgets=("large",)), make)
    (one,) = winners(found)
    assert one.cell.trial is not None
    assert one.cell.trial >= 50  # the box is narrow around the best
    axis = found.axes(found.chosen[0], one.cell.trial)["lr"]
    whole = found.axes(found.chosen[0], 0)["lr"]
    assert whole.low == -4.0 < axis.low < axis.high < whole.high == 0.0


def test_commands(tmp_path: Path) -> None:
    task = Task("mnist_mlp", 1, "accuracy", 3, 64, "fixed", 0, "float64", options={"l2": 0.01, "no_validation": True})
    mine = Contender("my opt:Mine", "abc", {"lr": 0.1, "betas": (0.9, 0.99)}, {})
    wanted = plan(problems=(task,), optimizers=(mine,), budgets=("oneshot",), schedules=("cosine",), seed=(7,))
    (one,) = winners(reading(tmp_path, wanted))
    words = shlex.split(one.command)
    assert words[:6] == ["cockpit", "bench", "run", "mnist_mlp", "-o", "my opt:Mine"]
    assert words[6:] == [
        *("--lr", "0.1", "--set", "betas=0.9,0.99", "--schedule", "cosine", "--epochs", "3", "--batch-size", "64"),
        *("--order", "fixed", "--dtype", "float64", "--l2", "0.01", "--no-validation", "--seed", "7"),
    ]


def test_a_command_trains_the_same(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from click.testing import CliRunner

    from cockpit.cli import main
    from cockpit.results import folder

    (one, _) = winners(reading(tmp_path, plan(seeds=2)))
    done = CliRunner().invoke(main, [*shlex.split(one.command)[1:], "--out", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    found = folder.find(tmp_path / "runs")
    assert [(run.optimizer, run.seed, run.epochs, run.batch_size) for run in found] == [
        ("SGD", 42, 2, 128),
        ("SGD", 43, 2, 128),
    ]
    assert all(run.hyperparameters == one.cell.hyperparameters for run in found)


def test_a_winner_whose_runs_have_several_matrices(tmp_path: Path) -> None:
    make = lambda spec: entry(spec, valid=abs(spec.hyperparameters["lr"] - 0.1), test=1.0)  # noqa: E731
    wanted = plan(budgets=("small",), search="study", protocol="crowded-valley", seeds=3)
    (one,) = winners(reading(tmp_path, wanted, make))
    alone, others = one.command.split(" && ")
    assert one.cell.trial
    assert f"--hessian {one.cell.trial} " in alone
    assert alone.endswith("--seeds 1")
    assert others == alone.replace(f" --hessian {one.cell.trial}", "").replace("--seeds 1", "--seeds 3")


def test_how_the_tuning_went(tmp_path: Path) -> None:
    """Defaults are at 0.01; larger rates beat them, but from 0.5 on they diverge."""

    def make(spec: Spec) -> Any:
        rate = spec.hyperparameters["lr"]
        if rate > 0.5:
            return entry(spec, state="diverged", diverged=1, length=1)
        return entry(spec, valid=1 / rate, test=87.0 if rate > 0.1 else 88.0)

    found = reading(tmp_path, PLAN, make)
    oneshot, small = winners(found)
    rates = [specs[0].hyperparameters["lr"] for specs in found.trials(found.chosen[1])]
    assert small.better == sum(0.01 < rate <= 0.5 for rate in rates) / 25
    assert small.diverged == sum(rate > 0.5 for rate in rates) / 25
    assert (oneshot.better, oneshot.diverged, oneshot.edges) == (None, None, ())
    assert small.speed == 0.0  # below the published target from the beginning
    assert oneshot.speed == 3.0  # never: one more than two epochs
    assert small.curves["test_loss"] == [[87.0] * 3] * 10


def test_a_target_of_its_own(tmp_path: Path) -> None:
    task = Task("my:hill", "abc", "loss", 2, 128, target=50.0)
    (one,) = winners(reading(tmp_path, plan(problems=(task,), budgets=("oneshot",))))
    assert one.speed == 0.0
    other = Task("my:hill", "abc", "loss", 2, 128)
    (one,) = winners(reading(tmp_path / "other", plan(problems=(other,), optimizers=(SGD,), budgets=("oneshot",))))
    assert one.speed is None
    assert QUADRATIC.target is None
