"""What tuning and schedules gave: tuned against untuned, and the gain of each budget and schedule."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cockpit.results.summary import rises
from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.plan import ONESHOT

CONSTANT = "constant"
Key = tuple[str, str, str, str, int]  # problem, optimizer, budget, schedule, tuning seed


@dataclass(frozen=True, slots=True)
class Matrix:
    """How much better each tuned optimizer is than each untuned one; more is better, for losses too."""

    problem: str
    budget: str
    schedule: str
    tuning_seed: int
    metric: str
    alone: bool  # by the tuning seed alone; otherwise means over all seeds
    untuned: tuple[str, ...]  # rows
    tuned: tuple[str, ...]  # columns
    values: tuple[tuple[float | None, ...], ...]  # absolute; None where a seed diverged or nothing is known


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better a cell is than the same optimizer with its defaults and a constant schedule."""

    problem: str
    optimizer: str
    budget: str
    schedule: str
    tuning_seed: int
    gain: float | None  # relative: 0.05 is five per cent better, for losses too


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual gain of a budget and schedule, over problems and optimizers."""

    budget: str
    schedule: str
    n: int
    median: float
    lower: float  # quartiles
    upper: float


def matrices(cells: Sequence[Cell], alone: bool = False) -> list[Matrix]:
    """A matrix for each problem, tuned budget, schedule and tuning seed that has untuned cells beside."""
    known = by_key(cells)
    optimizers, heads = _names(cells), _heads(cells)
    found = []
    for problem, budget, schedule, seed in heads:
        rows = tuple(name for name in optimizers if (problem, name, ONESHOT, schedule, seed) in known)
        columns = tuple(name for name in optimizers if (problem, name, budget, schedule, seed) in known)
        if budget == ONESHOT or not rows or not columns:
            continue
        before = [known[problem, name, ONESHOT, schedule, seed] for name in rows]
        after = [known[problem, name, budget, schedule, seed] for name in columns]
        values = tuple(_row(one, after, alone) for one in before)
        found.append(Matrix(problem, budget, schedule, seed, before[0].metric, alone, rows, columns, values))
    return found


def gains(cells: Sequence[Cell]) -> list[Gain]:
    """The gain of each cell over the defaults with a constant schedule."""
    known = by_key(cells)
    found = []
    for one in cells:
        base = known.get((one.problem, one.optimizer, ONESHOT, CONSTANT, one.tuning_seed))
        if base is None or base is one:
            continue
        better = _better(base.mean, one.mean, one.metric)
        gain = better / abs(base.mean) if better is not None and base.mean else None
        found.append(Gain(one.problem, one.optimizer, one.budget, one.schedule, one.tuning_seed, gain))
    return found


def usual(found: Iterable[Gain]) -> list[Usual]:
    """Median and quartiles of the gains of each budget and schedule."""
    groups: dict[tuple[str, str], list[float]] = {}
    for one in found:
        held = groups.setdefault((one.budget, one.schedule), [])
        held += [] if one.gain is None else [one.gain]
    return [
        Usual(*key, len(values), *(float(part) for part in np.percentile(values, [50, 25, 75])))
        for key, values in groups.items()
        if values
    ]


def by_key(cells: Iterable[Cell]) -> dict[Key, Cell]:
    """Cells by what they are; those of which nothing is known are left out."""
    return {(one.problem, one.optimizer, one.budget, one.schedule, one.tuning_seed): one for one in cells if one.values}


def plain(found: Iterable[Any]) -> list[dict[str, Any]]:
    """Rows of any kind as JSON has them."""
    return [asdict(one) for one in found]


def _names(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(one.optimizer for one in cells))


def _heads(cells: Iterable[Cell]) -> list[tuple[str, str, str, int]]:
    return list(dict.fromkeys((one.problem, one.budget, one.schedule, one.tuning_seed) for one in cells))


def _value(cell: Cell, alone: bool) -> float | None:
    if not alone:
        return cell.mean
    return dict(zip(cell.seeds, cell.values, strict=True)).get(cell.tuning_seed)


def _row(before: Cell, after: Sequence[Cell], alone: bool) -> tuple[float | None, ...]:
    base = _value(before, alone)
    return tuple(_better(base, _value(one, alone), before.metric) for one in after)


def _better(before: float | None, after: float | None, metric: str) -> float | None:
    if before is None or after is None:
        return None
    return after - before if rises(metric) else before - after
