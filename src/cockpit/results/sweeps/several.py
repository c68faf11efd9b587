"""The study's headline: trying several untuned optimizers against tuning one, at equal numbers of runs.

Of m runs the one with the best validation value is kept, and its test value counts. What is to be expected of it is the
mean over all subsets of m of the runs there are; each subset is as likely as any other, so it is a sum over the runs in
the order of their validation values, and nothing is drawn by lot. All of it by the tuning seed alone.
"""

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from cockpit.results.summary import rises
from cockpit.results.sweeps.plan import ONESHOT
from cockpit.results.sweeps.reading import End, Reading
from cockpit.results.sweeps.runs import Spec

Key = tuple[str, str, int]  # problem, schedule, tuning seed


@dataclass(frozen=True, slots=True)
class Several:
    """Expected test values of the best of m runs, for m = 1, 2, ... ; None where no run can be chosen."""

    problem: str
    schedule: str
    tuning_seed: int
    metric: str
    optimizers: int  # untuned ones that there are
    untuned: tuple[float | None, ...]  # the best of m untuned optimizers
    tuned: dict[str, tuple[float | None, ...]]  # the best of m settings of one optimizer
    lost: dict[str, tuple[float, ...]]  # how often all of m settings diverge; such subsets count for nothing

    @property
    def median(self) -> tuple[float | None, ...]:
        """The median over the optimizers that are tuned."""
        return tuple(_median([held[place] for held in self.tuned.values()]) for place in range(len(self.untuned)))


def several(readings: Sequence[Reading], compared: Container[tuple[str, str, str, str, int]]) -> list[Several]:
    """For each problem, schedule and tuning seed that has untuned and tuned runs.

    Args:
        readings: A sweep, and its baselines.
        compared: The cells that count, by problem, optimizer, budget, schedule and tuning seed; of equals the first.
    """
    untuned: dict[Key, dict[str, End]] = {}
    tuned: dict[Key, dict[str, list[End]]] = {}
    metrics: dict[Key, str] = {}
    for reading in readings:
        held: dict[tuple[Key, str], list[Spec]] = {}  # of the largest budget
        for runs in reading.chosen:
            key, name = (runs.group.task.name, runs.group.schedule, runs.group.tuning_seed), runs.group.contender.name
            if (key[0], name, runs.budget, *key[1:]) not in compared:
                continue
            metrics.setdefault(key, f"test_{runs.group.task.metric}")
            if runs.budget != ONESHOT:
                held[key, name] = max(held.get((key, name), []), [specs[0] for specs in reading.drawn(runs)], key=len)
            elif (end := reading.end(runs.reported[0])) is not None:
                untuned.setdefault(key, {}).setdefault(name, end)
        for (key, name), first in held.items():
            if all(spec.id in reading.rows for spec in first):
                ends = [end for spec in first if (end := reading.end(spec)) is not None]
                tuned.setdefault(key, {}).setdefault(name, ends)
    return [
        _several(key, metrics[key], list(pool.values()), tuned[key]) for key, pool in untuned.items() if tuned.get(key)
    ]


def expected(ends: Sequence[End], m: int, up: bool) -> tuple[float | None, float]:
    """What the best by validation of m of these runs is expected to have on test data.

    Returns the mean over all subsets of m runs in which one can be chosen, and the share of those in which none can.
    """
    n = len(ends)
    known = [(one.validation, one.test) for one in ends if one.validation is not None and one.test is not None]
    alive = [pair for pair in known if math.isfinite(pair[0])]
    alive.sort(key=lambda pair: -pair[0] if up else pair[0])
    dead = comb(n - len(alive), m)
    whole = comb(n, m) - dead
    if m > n or whole == 0:
        return None, 1.0
    total = math.fsum(comb(n - 1 - rank, m - 1) / whole * test for rank, (_, test) in enumerate(alive))
    return total, dead / comb(n, m)


def _several(key: Key, metric: str, pool: Sequence[End], tuned: dict[str, list[End]]) -> Several:
    sizes, up = range(1, len(pool) + 1), rises(metric)
    curves = {name: [expected(ends, m, up) for m in sizes] for name, ends in tuned.items()}
    return Several(
        *key,
        metric,
        len(pool),
        tuple(expected(pool, m, up)[0] for m in sizes),
        {name: tuple(value for value, _ in found) for name, found in curves.items()},
        {name: tuple(lost for _, lost in found) for name, found in curves.items()},
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
