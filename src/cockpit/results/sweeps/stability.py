"""How stable results are: under another tuning seed, and over seeds for every setting that was tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.plan import ONESHOT
from cockpit.results.sweeps.reading import Reading


@dataclass(frozen=True, slots=True)
class Retuned:
    """One optimizer, tuned once with each tuning seed."""

    problem: str
    optimizer: str
    budget: str
    schedule: str
    metric: str
    tuning_seeds: tuple[int, ...]
    means: tuple[float | None, ...]
    stds: tuple[float | None, ...]
    hyperparameters: tuple[dict[str, Any] | None, ...]

    @property
    def shift(self) -> float | None:
        """How far the means of two tunings lie apart, at most."""
        known = [mean for mean in self.means if mean is not None]
        return max(known) - min(known) if len(known) > 1 else None


@dataclass(frozen=True, slots=True)
class Tried:
    """One setting that was tried, over its seeds."""

    problem: str
    optimizer: str
    schedule: str
    tuning_seed: int
    trial: int
    hyperparameters: dict[str, Any]
    metric: str
    mean: float | None  # None where a seed diverged
    std: float | None
    seeds: int
    diverged: int
    values: tuple[float | None, ...] = ()  # the tuning seed first


def retuned(cells: Sequence[Cell]) -> list[Retuned]:
    """What every tuning seed gave each tuned cell; empty with one."""
    groups: dict[tuple[str, str, str, str], list[Cell]] = {}
    for one in cells:
        if one.values and one.budget != ONESHOT:
            groups.setdefault((one.problem, one.optimizer, one.budget, one.schedule), []).append(one)
    return [
        Retuned(
            *key,
            held[0].metric,
            tuple(one.tuning_seed for one in held),
            tuple(one.mean for one in held),
            tuple(one.std for one in held),
            tuple(one.hyperparameters for one in held),
        )
        for key, held in groups.items()
        if len(held) > 1
    ]


def tried(reading: Reading) -> list[Tried]:
    """Every setting over its seeds; empty where each has but one."""
    if reading.plan.tuning_seeds < 2:
        return []
    found = []
    for group, runs in reading.tuned():
        for trial, specs in enumerate(reading.trials(runs)):
            values = tuple(end.test for spec in specs if (end := reading.end(spec)) is not None)
            known = [value for value in values if value is not None]
            whole = bool(known) and len(known) == len(values)
            found.append(
                Tried(
                    group.task.name,
                    group.contender.name,
                    group.schedule,
                    group.tuning_seed,
                    trial,
                    dict(specs[0].hyperparameters),
                    f"test_{group.task.metric}",
                    float(np.mean(known)) if whole else None,
                    float(np.std(known)) if whole else None,
                    len(values),
                    len(values) - len(known),
                    values,
                )
            )
    return found
