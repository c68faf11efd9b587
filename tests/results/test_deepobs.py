"""Results that DeepOBS wrote."""

from __future__ import annotations

import csv
import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.results.samples import PUBLISHED, baselines

from cockpit.core.errors import CockpitError
from cockpit.results.deepobs import baseline_tables, is_result, result, tables_at

OLD: dict[str, Any] = {
    **{"testproblem": "fmnist_2c2d", "optimizer": "MomentumOptimizer", "learning_rate": 0.01, "weight_decay": None},
    **{"hyperparams": {"momentum": 0.99, "use_nesterov": False}, "batch_size": 128, "num_epochs": 3, "random_seed": 42},
    **{"lr_sched_epochs": None, "lr_sched_factors": None, "train_log_interval": 10},
    **{"train_losses": [2.0, 1.0, 0.5, 0.4], "test_losses": [2.1, 1.1, 0.6, 0.5]},
    **{"train_accuracies": [0.1, 0.5, 0.7, 0.8], "test_accuracies": [0.1, 0.4, 0.6, 0.7]},
    **{"minibatch_train_losses": [2.0, 1.5, 1.0]},
}
NEW: dict[str, Any] = {
    **{"testproblem": "cifar10_3c3d", "optimizer_name": "AdamOptimizer", "l2_reg": None, "training_params": {}},
    **{"optimizer_hyperparams": {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8}},
    **{"batch_size": 128, "num_epochs": 4, "random_seed": 43, "minibatch_train_losses": [2.0, 2.0, 1.5, 1.5]},
    **{f"{split}_losses": [2.0 + place, 1.0, 0.5, 0.4, 0.3] for place, split in enumerate(("train", "valid", "test"))},
    **{f"{split}_accuracies": [0.1, 0.5, 0.6, 0.7, 0.8] for split in ("train", "valid", "test")},
}


def test_version_1_1() -> None:
    found = result(OLD)
    assert (found.problem, found.optimizer, found.source) == ("fmnist_2c2d", "Momentum", "deepobs 1.1")
    assert found.hyperparameters == {"lr": 0.01, "momentum": 0.99}
    assert (found.seed, found.batch_size, found.epochs, found.log_interval) == (42, 128, 3, 10)
    assert found.curves["test_accuracy"] == [0.1, 0.4, 0.6, 0.7]
    assert found.batch_losses == [2.0, 1.5, 1.0]
    assert found.variant == {"validation": False, "order": "fixed", "shuffled_eval": True}
    assert found.complete
    assert found.diverged is None


def test_version_1_2() -> None:
    found = result(NEW)
    assert (found.optimizer, found.source, found.schedule) == ("Adam", "deepobs 1.2", "constant")
    assert found.hyperparameters == {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
    assert found.curves["valid_loss"][0] == 3.0
    assert found.variant == {"order": "fixed", "held_out": False, "shuffled_eval": True}
    assert found.batch_losses == [2.0, 1.5]  # each was stored twice


def test_the_pytorch_part() -> None:
    torch = {"optimizer_name": "SGD", "optimizer_hyperparams": {"lr": 0.1, "momentum": 0.9, "nesterov": False}}
    found = result({**NEW, **torch, "testproblem": "quadratic_deep"})
    assert (found.optimizer, found.source, found.variant) == ("Momentum", "deepobs 1.2 torch", {})
    assert found.curves["train_loss"][0] == 100.0  # its loss is divided by 50


@pytest.mark.parametrize(
    ("kind", "given", "name", "held"),
    [
        ("GradientDescentOptimizer", {}, "SGD", {}),
        ("MomentumOptimizer", {"momentum": 0.9, "use_nesterov": True}, "NAG", {"momentum": 0.9}),
        ("RMSPropOptimizer", {"decay": 0.9, "epsilon": 1e-10}, "RMSprop", {"alpha": 0.9, "eps": 1e-10}),
        ("AdamOptimizer", {"betas": [0.8, 0.9]}, "Adam", {"beta1": 0.8, "beta2": 0.9}),
        ("SGD", {"momentum": 0, "nesterov": False}, "SGD", {}),
        ("SGD", {"momentum": 0.9, "nesterov": True}, "NAG", {"momentum": 0.9}),
        ("MyOwn", {"k": 3}, "MyOwn", {"k": 3}),
    ],
)
def test_names(kind: str, given: dict[str, Any], name: str, held: dict[str, Any]) -> None:
    found = result({**NEW, "optimizer_name": kind, "optimizer_hyperparams": {"learning_rate": 1, **given}})
    assert found.optimizer == name
    assert found.hyperparameters == {"lr": 1.0, **held}


def test_a_divergence_filled_with_first_values_is_cut() -> None:
    filled = {name: [*values[:2], values[0], values[0], values[0]] for name, values in _lists(NEW).items()}
    found = result({**NEW, **filled})
    assert found.diverged == 2
    assert found.complete
    assert found.curves["test_loss"] == [4.0, 1.0]
    assert found.curves["test_accuracy"] == [0.1, 0.5]
    still = {**NEW, **filled, "optimizer_hyperparams": {"learning_rate": 0.0}}
    assert result(still).diverged is None  # nothing moves at all


def test_one_curve_that_ends_where_it_began_is_no_divergence() -> None:
    assert result({**NEW, "test_accuracies": [0.1, 0.5, 0.6, 0.7, 0.1]}).diverged is None


def test_a_divergence_with_nan_is_cut() -> None:
    losses = {"train_losses": [2.0, 1.0, math.nan, math.nan], "test_losses": [2.1, 1.1, math.inf, None]}
    found = result({**OLD, **losses})
    assert found.diverged == 2
    assert found.curves["train_loss"] == [2.0, 1.0]
    assert found.curves["test_accuracy"] == [0.1, 0.4]
    passing = result({**OLD, "test_losses": [2.1, math.inf, 0.6, 0.5]})  # it recovered
    assert passing.diverged is None
    assert len(passing.curves["test_loss"]) == 4


def test_a_run_that_was_stopped_is_not_complete() -> None:
    assert not result({**OLD, "num_epochs": 5}).complete


def test_schedules_and_l2() -> None:
    planned = {"lr_sched_epochs": [2, 3], "lr_sched_factors": [0.1, 0.01]}
    assert result({**NEW, "training_params": planned, "l2_reg": 1e-3}).schedule == "0.1@2,0.1@3"
    assert result({**OLD, **planned, "weight_decay": 1e-3}).variant["l2"] == 1e-3
    assert result({**OLD, **planned}).schedule == "0.1@2"  # epoch 3 of 3 is never trained


@pytest.mark.parametrize(
    ("problem", "old", "new"),
    [
        ("cifar100_allcnnc", {"label_leak", "shuffled_eval"}, {"label_leak", "shuffled_eval"}),
        ("svhn_wrn164", {"shuffled_eval", "cut"}, {"shuffled_eval", "held_out"}),
        ("tolstoi_char_rnn", {"whole_eval"}, set()),
        ("fmnist_2c2d", {"shuffled_eval"}, {"shuffled_eval"}),
    ],
)
def test_what_was_wrong_with_the_data_is_told(problem: str, old: set[str], new: set[str]) -> None:
    assert result({**OLD, "testproblem": problem}).variant.keys() == {"validation", "order"} | old
    assert result({**NEW, "testproblem": problem}).variant.keys() == {"order"} | new


def test_folders_tell_what_a_file_lacks(tmp_path: Path) -> None:
    bare = {name: value for name, value in OLD.items() if name.endswith(("losses", "accuracies"))}
    settings = "num_epochs__3__batch_size__64__momentum__9.9e-01__lr__1.e-02"
    path = tmp_path / "mnist_mlp" / "GradientDescentOptimizer" / settings / "random_seed__51__2019-02-13-18-27-50.json"
    found = result(bare, path)
    assert (found.problem, found.optimizer, found.seed, found.epochs) == ("mnist_mlp", "SGD", 51, 3)
    assert (found.batch_size, found.hyperparameters) == (64, {"lr": 0.01})


def test_what_is_no_result() -> None:
    assert not is_result({"test_losses": [1.0]})
    assert is_result(OLD)
    assert is_result(NEW)
    with pytest.raises(CockpitError, match="not a whole result of DeepOBS: KeyError 'batch_size'"):
        result({name: value for name, value in OLD.items() if name != "batch_size"})


def _lists(data: dict[str, Any]) -> dict[str, list[float]]:
    return {
        name: values
        for name, values in data.items()
        if name.endswith(("_losses", "_accuracies")) and "mini" not in name
    }


RUN = {
    **{"problem": "fmnist_2c2d", "optimizer": "AdamOptimizer", "learning_rate": "0.0100000000000001", "seed": "42"},
    **{"hyperparams": '{"beta1": 0.9}', "batch_size": "128", "num_epochs": "2", "weight_decay": ""},
    **{"final_test_loss": "0.512345678", "final_test_acc": "0.923456789", "first_epoch_at_convergence": "2"},
}
VALUES = {"test_losses": "2.3 0.6 0.51235", "test_accuracies": "0.1 0.91981 0.92346"}


def _tables(folder: Path, pack: bool = False, **changes: str) -> tuple[Path, Path]:
    runs, curves = (folder / f"my_baseline_{name}.csv{'.gz' if pack else ''}" for name in ("runs", "curves"))
    key = {name: RUN[name] for name in ("problem", "optimizer", "seed")} | {"learning_rate": "0.01"}
    rows = [{**key, "metric": metric, "values_per_epoch": values} for metric, values in VALUES.items()]
    for path, table in ((runs, [RUN | changes]), (curves, rows)):
        with gzip.open(path, "wt", newline="") if pack else path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    return runs, curves


@pytest.mark.parametrize("pack", [False, True])
def test_tables(tmp_path: Path, pack: bool) -> None:
    files = _tables(tmp_path, pack)
    assert tables_at(tmp_path) == tables_at(files[0]) == files
    (found,) = baseline_tables(*files)
    assert (found.optimizer, found.source) == ("Adam", "deepobs 1.1")
    assert found.hyperparameters == {"lr": 0.01, "beta1": 0.9}  # told apart from others by a rounded rate
    assert found.curves["test_loss"] == [2.3, 0.6, 0.512345678]
    # 0.91981 is rounded: the run says that it missed 0.919809... at epoch 1
    assert found.curves["test_accuracy"][1] < 0.9198093278634639
    assert found.curves["test_accuracy"][2] == 0.923456789


def test_tables_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="another epoch than 0"):
        baseline_tables(*_tables(tmp_path, first_epoch_at_convergence="0"))


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    assert tables_at(tmp_path) is None
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(CockpitError, match="not tables of baselines: KeyError"):
        baseline_tables(tmp_path / "a.csv", tmp_path / "a.csv")
    with pytest.raises(CockpitError, match="cannot be read"):
        baseline_tables(tmp_path / "b.csv", tmp_path / "b.csv")


def test_the_authors_baselines() -> None:
    runs = baselines()
    assert len(runs) == 1080
    assert tables_at(PUBLISHED) is not None
    assert {one.optimizer for one in runs} == {"SGD", "Momentum", "Adam"}
    assert all(one.complete and one.source == "deepobs 1.1" for one in runs)
    assert all(len(values) == (one.diverged or one.epochs + 1) for one in runs for values in one.curves.values())
    assert json.dumps(runs[0].hyperparameters)
