"""A sweep as a report looks at it: every cell with its runs, and how each of them ended. Read once, without torch."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median

from cockpit.results.sweeps.cells import Cell, Curves, cell, judged
from cockpit.results.sweeps.plan import ONESHOT, UNREFINED, SweepPlan
from cockpit.results.sweeps.printed import beside
from cockpit.results.sweeps.runs import Group, Spec, groups
from cockpit.results.sweeps.selection import FINISHED, Chosen, box, chosen
from cockpit.results.sweeps.spaces import Axis
from cockpit.results.sweeps.store import Row, Store


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended."""

    validation: float | None  # what settings are chosen by; None where it diverged
    test: float | None


@dataclass(frozen=True)
class Reading:
    """A sweep, read."""

    folder: Path
    plan: SweepPlan
    rows: Mapping[str, Row]
    chosen: tuple[Chosen, ...]  # the cells, with their runs
    curves: Curves

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells that a run has ended of or not, each with the study's figure if there is one."""
        found = [cell(one, self.rows, self.curves) for one in self.chosen]
        pairs = zip(found, self.chosen, strict=True)
        return [replace(one, published=beside(one, runs.group)) for one, runs in pairs]

    def end(self, spec: Spec) -> End | None:
        """How a run ended; None if it failed or has not ended."""
        row = self.rows.get(spec.id)
        if row is None or row.state == "failed":
            return None
        if row.state != FINISHED:
            return End(None, None)
        metric, epoch = f"test_{spec.task.metric}", judged(spec.schedule, spec.task.epochs)
        return End(row.validation, float(self.curves[spec.id][metric][epoch]))

    def trials(self, runs: Chosen) -> list[list[Spec]]:
        """The runs of each setting that a cell tried, the one that it is judged by first."""
        each = self.plan.tuning_seeds
        return [runs.tried[place : place + each] for place in range(0, len(runs.tried), each)]

    def drawn(self, runs: Chosen) -> list[list[Spec]]:
        """The same without those that were drawn from the box of the best ones before."""
        trials = self.trials(runs)
        return trials[:UNREFINED] if runs.group.refines(runs.budget) else trials

    def axes(self, runs: Chosen, trial: int) -> Mapping[str, Axis]:
        """The box that a setting was drawn from."""
        if not runs.group.refines(runs.budget) or trial < UNREFINED:
            return runs.group.axes
        return box(runs.group, self.trials(runs)[:UNREFINED], self.rows)

    def tuned(self) -> Iterator[tuple[Group, Chosen]]:
        """Each group with its largest budget that tries settings."""
        largest: dict[Group, Chosen] = {}
        for one in self.chosen:
            known = largest.get(one.group)
            if one.budget != ONESHOT and (known is None or len(one.tried) > len(known.tried)):
                largest[one.group] = one
        yield from largest.items()

    def seconds(self, problem: str) -> float | None:
        """The median seconds of a run on a problem; None where none has ended."""
        specs = {spec.id for one in self.chosen if one.group.task.name == problem for spec in one.specs}
        taken = [self.rows[id].seconds for id in specs if id in self.rows and self.rows[id].seconds > 0]
        return median(taken) if taken else None

    def failed(self) -> Counter[str]:
        """How many runs of each optimizer failed."""
        specs = {spec.id: spec for one in self.chosen for spec in one.specs}
        return Counter(
            spec.contender.name for id, spec in specs.items() if id in self.rows and self.rows[id].state == "failed"
        )

    def machines(self) -> list[tuple[Cell, int]]:
        """The cells whose reported runs come from several kinds of machine, and how many kinds."""
        counted = [
            (found, len({self.rows[spec.id].machine for spec in runs.reported if spec.id in self.rows}))
            for found, runs in zip(self.cells, self.chosen, strict=True)
        ]
        return [(found, kinds) for found, kinds in counted if kinds > 1]


def read(store: Store, plan: SweepPlan | None = None) -> Reading:
    """Read a sweep; without a plan that of its last one."""
    plan = store.plan() if plan is None else plan
    rows = store.rows()
    found = tuple(one for group in groups(plan) for one in chosen(group, rows))
    named = {spec.id for one in found for spec in one.specs}
    return Reading(store.folder, plan, rows, found, store.arrays(named & rows.keys()))


def stores(paths: Sequence[Path | str]) -> list[Store]:
    """The stores in some folders."""
    return [Store(Path(os.fspath(path))) for path in paths]
