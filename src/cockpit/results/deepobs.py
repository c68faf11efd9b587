"""Results of DeepOBS 1.1 and 1.2: its JSON files in its folders, and tables extracted from them."""

import csv
import gzip
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cockpit.core.errors import CockpitError
from cockpit.results import schedules
from cockpit.results.result import METRICS, Result
from cockpit.results.summary import TARGETS, rises

_LISTS = {metric: metric.replace("_loss", "_losses").replace("_accuracy", "_accuracies") for metric in METRICS}
_OPTIMIZERS = {"GradientDescent": "SGD", "RMSProp": "RMSprop"}  # TensorFlow's classes, without "Optimizer"
_NAMES = {"learning_rate": "lr", "epsilon": "eps", "decay": "alpha"}
_TORCH_QUADRATIC = 50.0  # its loss in the PyTorch part of 1.2 is that of all others divided by this


def is_file(path: Path) -> bool:
    """Whether a path is that of a result in DeepOBS's folders: settings / ``random_seed__42__date.json``."""
    return path.name.startswith("random_seed__") and path.suffix == ".json"


def is_result(data: Mapping[str, Any]) -> bool:
    """Whether the content of a JSON file is a result of DeepOBS."""
    return "test_losses" in data and ("optimizer_name" in data or "optimizer" in data or "testproblem" in data)


def result(data: Mapping[str, Any], path: Path | None = None) -> Result:
    """Read the content of a JSON file; what old files lack is taken from the folders."""
    data = {
        **(_from_folders(path) if path else {}),
        **{name: value for name, value in data.items() if value is not None},
    }
    try:
        return _result(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        where = f"{path}: " if path else ""
        raise CockpitError(f"{where}not a whole result of DeepOBS: {type(error).__name__} {error}") from error


def baseline_tables(runs_csv: Path | str, curves_csv: Path | str) -> list[Result]:
    """Read tables extracted from DeepOBS's baselines (.csv or .csv.gz): a row a run, and a row a run and metric."""
    curves: dict[tuple[str, ...], dict[str, list[float]]] = {}
    singular = {name: metric for metric, name in _LISTS.items()}
    try:
        for row in _rows(Path(curves_csv)):
            values = [float(value) for value in row["values_per_epoch"].split()]
            curves.setdefault(_key(row), {})[singular[row["metric"]]] = values
        return [_from_row(row, curves.get(_key(row), {})) for row in _rows(Path(runs_csv))]
    except (KeyError, TypeError, ValueError) as error:
        raise CockpitError(
            f"{runs_csv}, {curves_csv}: not tables of baselines: {type(error).__name__} {error}"
        ) from error


def tables_at(path: Path) -> tuple[Path, Path] | None:
    """The tables of runs and of curves in a folder, or next to each other; None where there are none."""
    folder = path if path.is_dir() else path.parent
    runs = [path] if path.is_file() else sorted(folder.glob("*baseline_runs.csv*"))
    for file in runs:
        curves = file.with_name(file.name.replace("_runs.csv", "_curves.csv"))
        if "_runs.csv" in file.name and curves.is_file():
            return file, curves
    return None


def _result(data: Mapping[str, Any]) -> Result:
    """Make a result of the lists and settings; both versions name them differently."""
    new = "optimizer_name" in data or "optimizer_hyperparams" in data
    given = dict(data.get("optimizer_hyperparams" if new else "hyperparams") or {})
    given |= {} if new or "learning_rate" not in data else {"learning_rate": data["learning_rate"]}
    torch = new and "lr" in given
    kind = str(data["optimizer_name"] if "optimizer_name" in data else data["optimizer"])
    optimizer, hyperparameters = _optimizer(kind, given)
    problem, epochs = str(data["testproblem"]), int(data["num_epochs"])
    curves = {metric: _numbers(data[name]) for metric, name in _LISTS.items() if data.get(name)}
    if torch and problem == "quadratic_deep":
        curves = {metric: [_TORCH_QUADRATIC * value for value in values] for metric, values in curves.items()}
    curves, diverged = _cut(curves, fills=new and hyperparameters["lr"] != 0)
    planned = data.get("training_params", data) or {}
    return Result(
        problem=problem,
        optimizer=optimizer,
        hyperparameters=hyperparameters,
        seed=int(data["random_seed"]),
        batch_size=int(data["batch_size"]),
        epochs=epochs,
        curves=curves,
        schedule=schedules.named(planned.get("lr_sched_epochs"), planned.get("lr_sched_factors"), epochs),
        variant=_variant(problem, new, torch, data),
        batch_losses=_once(_numbers(data.get("minibatch_train_losses") or ())),
        log_interval=data.get("train_log_interval"),
        diverged=diverged,
        source=f"deepobs {'1.2' if new else '1.1'}{' torch' if torch else ''}",
        complete=diverged is not None or {len(values) for values in curves.values()} == {epochs + 1},
    )


def _optimizer(kind: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The optimizer's name and its hyperparameters by the names used here; Momentum and NAG are told from SGD."""
    name = kind.removesuffix("Optimizer")
    name = _OPTIMIZERS.get(name, name)
    found = {_NAMES.get(key, key): value for key, value in given.items()}
    if isinstance(betas := found.pop("betas", None), Sequence):
        found["beta1"], found["beta2"] = betas
    nesterov = found.pop("use_nesterov", False) or found.pop("nesterov", False)
    found.pop("nesterov", None)
    if name in ("SGD", "Momentum") and nesterov:
        name = "NAG"
    elif name == "SGD" and found.get("momentum"):
        name = "Momentum"
    elif name == "SGD":
        found.pop("momentum", None)
    return name, {**found, "lr": float(found["lr"])}


def _variant(problem: str, new: bool, torch: bool, data: Mapping[str, Any]) -> dict[str, Any]:
    """Where its data differ from what a problem here is by default; see ``cockpit.problems._base.Variant``."""
    variant: dict[str, Any] = {} if new else {"validation": False}
    if not torch:
        variant["order"] = "fixed"
        variant |= {"label_leak": True} if problem.startswith("cifar100") else {}
        variant |= {} if problem.startswith("tolstoi") else {"shuffled_eval": True}
        variant |= {"held_out": False} if new and problem.startswith(("cifar10_", "svhn")) else {}
        variant |= {"cut": True} if not new and problem.startswith("svhn") else {}
        variant |= {"whole_eval": True} if not new and problem.startswith("tolstoi") else {}
    l2 = data.get("l2_reg", data.get("weight_decay"))
    return variant if l2 is None else {**variant, "l2": float(l2)}


def _once(losses: list[float]) -> list[float]:
    """Losses of mini-batches that were stored twice each, once."""
    twice = len(losses) % 2 == 0 and all(_same(a, b) for a, b in zip(losses[::2], losses[1::2], strict=True))
    return losses[::2] if twice and len(losses) > 1 else losses


def _cut(curves: dict[str, list[float]], fills: bool) -> tuple[dict[str, list[float]], int | None]:
    """The curves up to a divergence, and the epoch (the first is 1) in which that happened.

    After it, version 1.2 has filled all lists with their first values, and version 1.1 has losses that are not finite.
    No other run ends exactly where it began, unless its learning rate is 0.
    """
    length = min((len(values) for values in curves.values()), default=0)
    filled = broken = length
    while fills and filled > 1 and all(_same(values[filled - 1], values[0]) for values in curves.values()):
        filled -= 1
    losses = [values for metric, values in curves.items() if metric.endswith("loss")]
    while broken > 1 and any(not math.isfinite(values[broken - 1]) for values in losses):
        broken -= 1
    end = min(filled, broken)
    if end == length:
        return curves, None
    return {metric: values[:end] for metric, values in curves.items()}, end


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def _from_folders(path: Path) -> dict[str, Any]:
    """What the names of the file and its folders say: problem / optimizer / settings / seed."""
    found: dict[str, Any] = {}
    if seed := re.match(r"random_seed__(\d+)__", path.name):
        found["random_seed"] = int(seed[1])
    settings = path.parent.name
    if not settings.startswith("num_epochs__"):
        return found
    words = settings.split("__")
    named = dict(zip(words[::2], words[1::2], strict=False))
    found |= {"num_epochs": int(named.pop("num_epochs")), "testproblem": path.parent.parent.parent.name}
    found |= {"batch_size": int(named.pop("batch_size"))} if "batch_size" in named else {}
    if "lr" in named and "learning_rate" not in named:
        found["learning_rate"] = float(named["lr"])
    return {**found, "optimizer": path.parent.parent.name}


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (OSError, EOFError) as error:
        raise CockpitError(f"{path} cannot be read: {error}; give a table as .csv or .csv.gz") from error


def _key(row: Mapping[str, str]) -> tuple[str, ...]:
    """A run; its learning rate is rounded, because it is not written alike everywhere."""
    return row["problem"], row["optimizer"], f"{float(row['learning_rate']):.6g}", row["seed"]


def _from_row(row: Mapping[str, str], curves: dict[str, list[float]]) -> Result:
    """A run of a table; the last values stand there with more digits than in the curves."""
    last = {
        "train_loss": "train_loss",
        "test_loss": "test_loss",
        "train_accuracy": "train_acc",
        "test_accuracy": "test_acc",
    }
    exact = {metric: float(row[f"final_{name}"]) for metric, name in last.items() if row.get(f"final_{name}")}
    full = {metric: [*values[:-1], exact.get(metric, values[-1])] for metric, values in curves.items()}
    judged = "test_accuracy" if "test_accuracy" in full else "test_loss"
    if row["problem"] in TARGETS and judged in full and "first_epoch_at_convergence" in row:
        first = int(float(row["first_epoch_at_convergence"] or len(full[judged])))
        full[judged] = _sharpened(full[judged], rises(judged), TARGETS[row["problem"]], first)
    lists = {_LISTS[metric]: values for metric, values in full.items()}
    numbers = {
        "batch_size": int(row["batch_size"]),
        "num_epochs": int(row["num_epochs"]),
        "random_seed": int(row["seed"]),
    }
    weight_decay = float(row["weight_decay"]) if row.get("weight_decay") else None
    hyperparams = json.loads(row["hyperparams"] or "{}")
    return _result(
        {
            **{"testproblem": row["problem"], "optimizer": row["optimizer"], **numbers, **lists},
            **{"learning_rate": float(f"{float(row['learning_rate']):.10g}"), "hyperparams": hyperparams},
            **({} if weight_decay is None else {"weight_decay": weight_decay}),
        }
    )


def _sharpened(curve: list[float], up: bool, target: float, first: int) -> list[float]:
    """A rounded curve, on the right side of the target: the table says at which epoch it was first reached."""
    missed = math.nextafter(target, -math.inf if up else math.inf)
    reached = [value >= target if up else value <= target for value in curve]
    sharp = [
        missed if met and epoch < first else value
        for epoch, (value, met) in enumerate(zip(curve, reached, strict=True))
    ]
    if first < len(curve) and not reached[first]:
        sharp[first] = target
    if any(not math.isclose(a, b, rel_tol=1e-4) for a, b in zip(sharp, curve, strict=True) if not _same(a, b)):
        raise ValueError(f"a curve that reaches {target:g} at another epoch than {first}, as its run says")
    return sharp
