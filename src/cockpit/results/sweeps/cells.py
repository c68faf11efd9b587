"""The cells of a sweep: one problem, optimizer, budget, schedule and tuning seed each, judged on test data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cockpit.results.sweeps.plan import SweepPlan
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.selection import Chosen, chosen
from cockpit.results.sweeps.store import Row, Store, Values

Curves = Mapping[str, Mapping[str, Values]]  # of results, by id and metric


@dataclass(frozen=True, slots=True)
class Cell:
    """How well an optimizer does; the fields are those of the report's JSON, and ``missing``."""

    problem: str
    optimizer: str
    budget: str
    schedule: str
    tuning_seed: int
    metric: str  # "test_accuracy" or "test_loss"
    mean: float | None  # None where a seed diverged, or none has finished
    std: float | None  # of the population
    values: list[float | None]  # one a seed, None where it diverged; a seed that failed is absent
    train: dict[str, Any]  # mean, std and values of the training loss
    seeds: list[int]  # of the values
    diverged: int  # how many of the seeds
    hyperparameters: dict[str, Any] | None  # the winner's; None before it is known
    trial: int | None  # its number; None for defaults
    epoch: int  # after which it is judged
    validation: float | None  # what the winner was chosen by; of defaults the first seed's
    published: dict[str, Any] | None  # the figure of the study
    missing: int  # runs that have not ended yet


def cells(store: Store, plan: SweepPlan) -> list[Cell]:
    """All cells of a plan, also those of which nothing is known yet."""
    rows = store.rows()
    found = [one for group in groups(plan) for one in chosen(group, rows)]
    curves = store.arrays(spec.id for one in found for spec in one.reported if spec.id in rows)
    return [cell(one, rows, curves) for one in found]


def report(found: Sequence[Cell]) -> dict[str, Any]:
    """The cells as the JSON of a report has them; those that lack runs are listed, too."""
    shown = [{key: value for key, value in asdict(one).items() if key != "missing"} for one in found if one.values]
    named = ("problem", "optimizer", "budget", "schedule", "tuning_seed")
    missing = [{name: getattr(one, name) for name in named} | {"runs": one.missing} for one in found if one.missing]
    return {"cells": shown, "comparisons": [], "score": None, "missing": missing}


def judged(schedule: str, epochs: int) -> int:
    """The epoch after which a run counts: the last one, of warm restarts the end of the last full cycle."""
    if schedule != "cosine_wr":
        return epochs
    end, length = 0, 10
    while end + length <= epochs:
        end, length = end + length, 2 * length
    return end or epochs


def cell(one: Chosen, rows: Mapping[str, Row], curves: Curves) -> Cell:
    """What is said of one cell; the curves are those of its reported runs."""
    group = one.group
    metric, epoch = f"test_{group.task.metric}", judged(group.schedule, group.task.epochs)
    there = [spec for spec in one.reported if spec.id in rows and rows[spec.id].state != "failed"]
    lasting = [rows[spec.id].state == "finished" for spec in there]

    def values(metric: str) -> list[float | None]:
        pairs = zip(there, lasting, strict=True)
        return [float(curves[spec.id][metric][epoch]) if lasts else None for spec, lasts in pairs]

    test = values(metric)
    judge = rows.get(one.reported[0].id) if one.reported else None
    return Cell(
        problem=group.task.name,
        optimizer=group.contender.name,
        budget=one.budget,
        schedule=group.schedule,
        tuning_seed=group.tuning_seed,
        metric=metric,
        **_spread(test),
        values=test,
        train={**_spread(train := values("train_loss")), "values": train},
        seeds=[spec.seed for spec in there],
        diverged=lasting.count(False),
        hyperparameters=None if one.hyperparameters is None else dict(one.hyperparameters),
        trial=one.trial,
        epoch=epoch,
        validation=judge.validation if judge is not None and judge.state == "finished" else None,
        published=None,
        missing=one.unknown + len({spec.id for spec in one.specs if spec.id not in rows}),
    )


def _spread(values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean and population deviation; undefined as soon as one is."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return {"mean": None, "std": None}
    return {"mean": float(np.mean(known)), "std": float(np.std(known))}
