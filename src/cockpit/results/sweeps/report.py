"""What a sweep says, as data: cells, comparisons, what tuning gave, who won with what."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cockpit.results.sweeps import cells as tables
from cockpit.results.sweeps.baselines import Refused, joined
from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.comparisons import Comparison, comparisons
from cockpit.results.sweeps.gains import Gain, Matrix, Usual, by_key, gains, matrices, plain, usual
from cockpit.results.sweeps.plan import SweepPlan
from cockpit.results.sweeps.reading import Reading, read
from cockpit.results.sweeps.several import Several, several
from cockpit.results.sweeps.stability import Retuned, Tried, retuned, tried
from cockpit.results.sweeps.store import Store
from cockpit.results.sweeps.winners import Winner, winners


@dataclass(frozen=True)
class Report:
    """A sweep, and others as its baselines; each part is computed when it is asked for."""

    reading: Reading
    others: tuple[Reading, ...] = ()
    costs: Mapping[str, float] = field(default_factory=dict)  # training times beside SGD's, by optimizer

    @property
    def plan(self) -> SweepPlan:
        """What was compared."""
        return self.reading.plan

    @cached_property
    def _joined(self) -> tuple[list[Cell], list[Refused]]:
        return joined(self.reading, self.others)

    @property
    def cells(self) -> list[Cell]:
        """One problem, optimizer, budget, schedule and tuning seed each; those of the baselines last."""
        return self._joined[0]

    @property
    def refused(self) -> list[Refused]:
        """Cells of the baselines that are not compared, and why."""
        return self._joined[1]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Every pair of optimizers that can be compared."""
        return comparisons(self.cells)

    @cached_property
    def matrices(self) -> list[Matrix]:
        """Tuned against untuned, means over all seeds."""
        return matrices(self.cells)

    @cached_property
    def alone(self) -> list[Matrix]:
        """The same by the tuning seed alone."""
        return matrices(self.cells, alone=True)

    @cached_property
    def gains(self) -> list[Gain]:
        """The gain of each cell over the defaults with a constant schedule."""
        return gains(self.cells)

    @cached_property
    def usual(self) -> list[Usual]:
        """The usual gain of each budget and schedule."""
        return usual(self.gains)

    @cached_property
    def several(self) -> list[Several]:
        """Several untuned optimizers against tuning one."""
        return several([self.reading, *self.others], by_key(self.cells))

    @cached_property
    def winners(self) -> list[Winner]:
        """The setting of each cell of this sweep, and how it trains."""
        return winners(self.reading)

    @cached_property
    def retuned(self) -> list[Retuned]:
        """What each tuning seed gave; empty with one."""
        return retuned(self.cells)

    @cached_property
    def tried(self) -> list[Tried]:
        """Every setting over its seeds; empty where each has one."""
        return tried(self.reading)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each cell of which something is known: ``pandas.DataFrame(report.rows())``."""
        names = [name for name in Cell.__slots__ if name not in ("train", "hyperparameters", "published", "missing")]
        found = []
        for one in self.cells:
            if one.values:
                row = {name: getattr(one, name) for name in names}
                row |= {"train_mean": one.train["mean"], "train_std": one.train["std"]}
                row |= {"published_mean": None, "published_std": None, "published_table": None}
                row |= (
                    {f"published_{of}": one.published[of] for of in ("mean", "std", "table")} if one.published else {}
                )
                found.append(row | {"hyperparameters": dict(one.hyperparameters or {})})
        return found

    def plain(self) -> dict[str, Any]:
        """As strict JSON has it."""
        compared = [one.plain() for one in self.comparisons]
        if len(self.plan.seed) > 1:
            compared = [
                {**held, "tuning_seed": one.tuning_seed} for held, one in zip(compared, self.comparisons, strict=True)
            ]
        return {
            **tables.report(self.cells),
            "comparisons": compared,
            "tuned_against_untuned": plain(self.matrices),
            "gains": plain(self.usual),
            "several_against_one": [{**asdict(one), "median": one.median} for one in self.several],
            "winners": [_winner(one) | {"cost": self.costs.get(one.cell.optimizer)} for one in self.winners],
            "retuned": [{**asdict(one), "shift": one.shift} for one in self.retuned],
            "tried": plain(self.tried),
            "not_compared": plain(self.refused),
            "median_seconds": {task.name: self.reading.seconds(task.name) for task in self.plan.problems},
            "mixed_machines": [_named(one) | {"kinds": kinds} for one, kinds in self.reading.machines()],
        }


def report(folder: Path | str, others: Sequence[Path | str] = ()) -> Report:
    """Read the sweep in a folder; ``others`` are folders of sweeps whose results are its baselines."""
    return Report(_read(folder), tuple(map(_read, others)))


def _read(folder: Path | str) -> Reading:
    return read(Store(Path(os.fspath(folder))))


def _named(cell: Cell) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in ("problem", "optimizer", "budget", "schedule", "tuning_seed")}


def _winner(one: Winner) -> dict[str, Any]:
    kept = ("edges", "command", "speed", "better", "diverged")
    return _named(one.cell) | {"trial": one.cell.trial} | {name: getattr(one, name) for name in kept}
