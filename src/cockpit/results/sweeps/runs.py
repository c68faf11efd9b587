"""The runs of a sweep: what defines each of them, and which belong to one optimizer on one problem."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cockpit.results.sweeps import plan as plans
from cockpit.results.sweeps.draws import grid_size, setting
from cockpit.results.sweeps.plan import Contender, SweepPlan, Task
from cockpit.results.sweeps.spaces import Axis, axes

LETTERS = 24  # of an id
_dense = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Spec:
    """One run; all of them that have the same id are one."""

    id: str
    task: Task
    contender: Contender
    hyperparameters: Mapping[str, Any]
    schedule: str
    seed: int
    matrix: int

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that defines the run."""
        return identity(self.task, self.contender, self.schedule) | {
            "hyperparameters": dict(self.hyperparameters),
            "seed": self.seed,
            "matrix": self.matrix,
        }


def identity(task: Task, contender: Contender, schedule: str) -> dict[str, Any]:
    """What runs of one optimizer on one problem have in common."""
    return {
        "problem": task.name,
        "problem_version": task.version,
        "options": dict(task.options),
        "epochs": task.epochs,
        "batch": task.batch,
        "order": task.order,
        "precision": task.precision,
        "optimizer": contender.name,
        "optimizer_version": contender.version,
        "schedule": schedule,
    }


@dataclass(frozen=True, eq=False)
class Group:
    """All runs of one optimizer on one problem with one schedule and tuning seed; its budgets share settings."""

    plan: SweepPlan
    task: Task
    contender: Contender
    schedule: str
    tuning_seed: int

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """Where settings are drawn."""
        return axes(self.contender.space, rounded=self.plan.search == "study")

    @property
    def rising(self) -> bool:
        """Whether more is better."""
        return self.task.metric == "accuracy"

    def size(self, budget: str) -> int:
        """How many settings a budget tries."""
        return min(plans.size(budget), grid_size(self.axes)) if self.plan.search == "grid" else plans.size(budget)

    def refines(self, budget: str) -> bool:
        """Whether the last settings of a budget come from a box that is known only later."""
        return plans.refined(budget) and self.plan.search != "grid"

    def seeds(self) -> range:
        """Of a one-shot cell, and of a winner."""
        return range(self.tuning_seed, self.tuning_seed + self.plan.seeds)

    def oneshot(self) -> list[Spec]:
        """The runs with the optimizer's defaults."""
        return [self.spec(self.contender.defaults, seed, self._matrix(None)) for seed in self.seeds()]

    def setting(self, trial: int, box: Mapping[str, Axis] | None = None) -> dict[str, Any]:
        """The hyperparameters of a trial."""
        drawn = setting(self.plan.search, self.tuning_seed, trial, box or self.axes)
        return {**self.contender.defaults, **drawn}

    def trial(self, trial: int, box: Mapping[str, Axis] | None = None) -> list[Spec]:
        """The runs of a trial, the one that it is judged by first."""
        if box is None and trial in self._trials:
            return self._trials[trial]
        hyperparameters, matrix = self.setting(trial, box), self._matrix(trial)
        first = self.tuning_seed
        specs = [self.spec(hyperparameters, seed, matrix) for seed in range(first, first + self.plan.tuning_seeds)]
        if box is None:
            self._trials[trial] = specs
        return specs

    def reruns(self, hyperparameters: Mapping[str, Any]) -> list[Spec]:
        """The runs of a winner besides the one it was judged by."""
        return [self.spec(hyperparameters, seed, self._matrix(None)) for seed in self.seeds()[1:]]

    @property
    def covered(self) -> int:
        """How many of a winner's runs are there as soon as its setting has been tried, whichever wins."""
        drifts = self._matrix(0) != self._matrix(None) or self._matrix(1) != self._matrix(None)
        return 1 if drifts else min(self.plan.tuning_seeds, self.plan.seeds)

    def spec(self, hyperparameters: Mapping[str, Any], seed: int, matrix: int) -> Spec:
        """One run."""
        own = _dense([sorted(hyperparameters.items()), seed, matrix])
        digest = self._digest.copy()
        digest.update(own.encode())
        id = digest.hexdigest()[:LETTERS]
        return Spec(id, self.task, self.contender, hyperparameters, self.schedule, seed, matrix)

    def _matrix(self, trial: int | None) -> int:
        """Which matrix of the quadratic problem a run has; ``trial``: None for one that tunes nothing."""
        drifts = self.plan.protocol is not None and self.task.name == plans.WITH_MATRICES
        if not drifts:
            return self.task.matrix
        return 0 if trial is None or self.contender.name in plans.ONE_MATRIX else trial % plans.MATRICES

    @cached_property
    def _trials(self) -> dict[int, list[Spec]]:
        """Those of the whole space, which budgets share."""
        return {}

    @cached_property
    def _digest(self) -> Any:
        known = identity(self.task, self.contender, self.schedule)
        return hashlib.sha256(json.dumps(known, sort_keys=True, separators=(",", ":")).encode())


def groups(plan: SweepPlan) -> list[Group]:
    """All groups of a plan."""
    return [
        Group(plan, task, contender, schedule, seed)
        for task in plan.problems
        for contender in plan.optimizers
        for schedule in plan.schedules
        for seed in plan.seed
    ]
