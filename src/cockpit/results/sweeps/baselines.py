"""Another sweep's results as baselines: a new optimizer beside old ones that are not run again."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.plan import ONESHOT, WITH_MATRICES, Contender, SweepPlan, Task
from cockpit.results.sweeps.reading import Reading


@dataclass(frozen=True, slots=True)
class Refused:
    """A cell of another sweep that is not compared, and why."""

    store: str
    problem: str
    optimizer: str
    budget: str
    schedule: str
    tuning_seed: int
    reason: str


def joined(own: Reading, others: Iterable[Reading]) -> tuple[list[Cell], list[Refused]]:
    """The cells of a sweep with those of others that can be compared with them, and the ones that cannot."""
    cells, refused = list(own.cells), list[Refused]()
    taken = {
        (one.problem, one.optimizer, one.budget, one.schedule, one.tuning_seed): own for one in cells if one.values
    }
    for other in others:
        for cell, runs in zip(other.cells, other.chosen, strict=True):
            if not cell.values:
                continue
            named = (cell.problem, cell.optimizer, cell.budget, cell.schedule, cell.tuning_seed)
            reason = _reason(own, other, cell, runs.group.task)
            if reason is None and named in taken:
                first = _contender(taken[named].plan, cell.optimizer)
                if first == runs.group.contender or first.version == runs.group.contender.version:
                    reason = "it is there already"
                else:
                    cell = replace(cell, optimizer=f"{cell.optimizer} ({other.plan.name})")
            if reason is None:
                cells.append(cell)
                taken.setdefault((*named[:1], cell.optimizer, *named[2:]), other)
            else:
                refused.append(Refused(str(other.folder), *named, reason))
    return cells, refused


def _reason(own: Reading, other: Reading, cell: Cell, task: Task) -> str | None:
    """Why a cell of another sweep is not compared; None if it is."""
    beside = next((one for one in own.plan.problems if one.name == task.name), None)
    if beside is None:
        return f"this sweep has no {task.name}"
    for name, here, there in _facts(own.plan, beside, other.plan, task, cell.budget):
        if here != there:
            return f"{name} {there}, here {here}"
    alike = [one for one in own.cells if (one.problem, one.budget, one.schedule) == _place(cell)]
    if not alike:
        return f"this sweep has no budget {cell.budget} with schedule {cell.schedule}"
    seeds = [one.seeds for one in alike if one.tuning_seed == cell.tuning_seed and one.values]
    if cell.seeds not in seeds and seeds:
        return f"seeds {_listed(cell.seeds)}, here {_listed(max(seeds))}"
    return None if seeds else f"tuned with seed {cell.tuning_seed}, here {_listed(own.plan.seed)}"


def _facts(plan: SweepPlan, task: Task, other_plan: SweepPlan, other: Task, budget: str) -> list[tuple[str, Any, Any]]:
    """What must be equal, by name, here and there."""
    names = {"version": "version", "metric": "metric", "epochs": "epochs", "batch": "batch size", "order": "order"}
    facts = [(said, getattr(task, name), getattr(other, name)) for name, said in names.items()]
    facts += [("precision", task.precision, other.precision), ("matrix", task.matrix, other.matrix)]
    facts += [("options", dict(task.options), dict(other.options))]
    if task.name == WITH_MATRICES and budget != ONESHOT:
        here, there = ("drifting" if one.protocol else "the same" for one in (plan, other_plan))
        facts.append(("matrices", here, there))
    return facts


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.problem, cell.budget, cell.schedule


def _contender(plan: SweepPlan, name: str) -> Contender:
    return next(one for one in plan.optimizers if one.name == name)


def _listed(seeds: Iterable[int]) -> str:
    held = list(seeds)
    straight = held == list(range(held[0], held[0] + len(held))) if held else False
    return f"{held[0]} to {held[-1]}" if straight and len(held) > 2 else ", ".join(map(str, held)) or "none"
