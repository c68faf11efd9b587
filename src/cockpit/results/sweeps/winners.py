"""Who won with what: at the edge of where it was searched or not, how much tuning gave, and how to train it alone."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cockpit.results.summary import TARGETS, rises
from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.plan import ONESHOT
from cockpit.results.sweeps.reading import Reading
from cockpit.results.sweeps.selection import Chosen
from cockpit.results.sweeps.spaces import Axis
from cockpit.results.tables import number

USUAL = 42  # the first seed of `bench run --seeds`
EDGE = 0.05  # of a box, in the scale that is searched


@dataclass(frozen=True, slots=True)
class Winner:
    """A cell's setting."""

    cell: Cell
    edges: tuple[str, ...]  # one sentence for each hyperparameter at the edge of its box
    command: str  # which trains it alone
    speed: float | None  # epochs until the test metric reaches the problem's target, over the seeds; None: no target
    better: float | None  # share of the settings tried that ended better than the defaults, by validation
    diverged: float | None  # share of the settings tried that diverged
    curves: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)  # by metric, one a seed


def winners(reading: Reading) -> list[Winner]:
    """What is said of each cell whose setting is known."""
    pairs = zip(reading.cells, reading.chosen, strict=True)
    return [_winner(reading, cell, runs) for cell, runs in pairs if cell.hyperparameters is not None and cell.values]


def edges(axes: Mapping[str, Axis], hyperparameters: Mapping[str, Any]) -> list[str]:
    """The hyperparameters that lie within 5% of an edge of their interval, in the scale that is searched."""
    found = []
    for name, axis in axes.items():
        if axis.kind in ("choice", "fixed") or axis.high <= axis.low:
            continue
        at = (axis.scaled(hyperparameters[name]) - axis.low) / (axis.high - axis.low)
        if axis.kind == "log1m":
            at = 1 - at  # the larger the value, the nearer to 1
        if not EDGE < at < 1 - EDGE:
            found.append(f"{name} {number(hyperparameters[name])} at the {'lower' if at < 0.5 else 'upper'} edge")
    return found


def command(runs: Chosen, hyperparameters: Mapping[str, Any]) -> str:
    """The command that trains a setting alone; two where the matrix of its first run is not that of the others."""
    first, seeds = runs.reported[0].matrix, runs.group.plan.seeds
    others = runs.reported[-1].matrix
    if first == others:
        return _command(runs, hyperparameters, first, seeds)
    alone = _command(runs, hyperparameters, first, 1)
    usual = runs.group.tuning_seed == USUAL
    return f"{alone} && {_command(runs, hyperparameters, others, seeds)}" if usual and seeds > 1 else alone


def _command(runs: Chosen, hyperparameters: Mapping[str, Any], matrix: int, seeds: int) -> str:
    group = runs.group
    task, options = group.task, dict(group.task.options)
    words = ["cockpit", "bench", "run", task.name, "-o", group.contender.name]
    rate = hyperparameters.get("lr")
    words += [] if rate is None else ["--lr", repr(rate)]
    for name, value in hyperparameters.items():
        if name != "lr":
            words += ["--set", f"{name}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}"]
    words += [] if group.schedule == "constant" else ["--schedule", group.schedule]
    words += ["--epochs", str(task.epochs), "--batch-size", str(task.batch)]
    words += [] if task.order == "fresh" else ["--order", task.order]
    words += ["--hessian", str(matrix)] if matrix else []
    words += [] if task.precision == "float32" else ["--dtype", task.precision]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        words += [flag] if value is True else [] if value in (None, False) else [flag, str(value)]
    words += ["--seeds", str(seeds)] if group.tuning_seed == USUAL else ["--seed", str(group.tuning_seed)]
    return shlex.join(words)


def _winner(reading: Reading, cell: Cell, runs: Chosen) -> Winner:
    assert cell.hyperparameters is not None
    tuned = cell.trial is not None
    near = edges(reading.axes(runs, cell.trial), cell.hyperparameters) if cell.trial is not None else []
    better, diverged = _shares(reading, cell, runs) if tuned else (None, None)
    return Winner(
        cell,
        tuple(near),
        command(runs, cell.hyperparameters),
        _speed(reading, cell, runs),
        better,
        diverged,
        _curves(reading, runs),
    )


def _shares(reading: Reading, cell: Cell, runs: Chosen) -> tuple[float | None, float | None]:
    ends = [reading.end(specs[0]) for specs in reading.trials(runs)]
    known = [one for one in ends if one is not None]
    if not known:
        return None, None
    lost = sum(one.validation is None for one in known) / len(known)
    default = next((one for one in reading.chosen if one.group is runs.group and one.budget == ONESHOT), None)
    base = reading.end(default.reported[0]) if default is not None else None
    if base is None:
        return None, lost
    if base.validation is None:
        return 1 - lost, lost
    up, bar = rises(cell.metric), base.validation
    won = [one.validation > bar if up else one.validation < bar for one in known if one.validation is not None]
    return sum(won) / len(known), lost


def _speed(reading: Reading, cell: Cell, runs: Chosen) -> float | None:
    target = runs.group.task.target if runs.group.task.target is not None else TARGETS.get(cell.problem)
    held = [reading.curves[spec.id][cell.metric].tolist() for spec in runs.reported if reading.end(spec) is not None]
    if target is None or not held:
        return None
    up = rises(cell.metric)
    reached = [[value >= target if up else value <= target for value in curve] for curve in held]
    never = runs.group.task.epochs + 1
    return sum(one.index(True) if True in one else never for one in reached) / len(reached)


def _curves(reading: Reading, runs: Chosen) -> dict[str, list[list[float]]]:
    held = [reading.curves[spec.id] for spec in runs.reported if reading.end(spec) is not None]
    metrics = dict.fromkeys(metric for curves in held for metric in curves)
    return {metric: [curves[metric].tolist() for curves in held if metric in curves] for metric in metrics}
