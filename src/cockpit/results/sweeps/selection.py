"""Which settings are tried, which one wins, which runs tell how good it is: as far as results are there.

A setting is judged by its final validation value from the tuning seed alone. One that diverged or failed never wins
against one that did not, and is in no box.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cockpit.results.sweeps.plan import BEST, ONESHOT, UNREFINED
from cockpit.results.sweeps.runs import Group, Spec
from cockpit.results.sweeps.spaces import Axis

FINISHED = "finished"


class Known(Protocol):
    """What selection asks of a result."""

    @property
    def state(self) -> str:
        """``"finished"``, ``"diverged"`` or ``"failed"``."""

    @property
    def validation(self) -> float | None:
        """The last value of the metric on validation data."""


Rows = Mapping[str, Known]  # results by id


@dataclass(slots=True)
class Chosen:
    """The runs of one cell, as far as they can be named."""

    group: Group
    budget: str
    tried: list[Spec] = field(default_factory=list)  # of the tuning
    reported: list[Spec] = field(default_factory=list)  # whose test values count, the tuning seed first
    unknown: int = 0  # runs that can be named only when others have ended
    trial: int | None = None  # the winner's number
    hyperparameters: Mapping[str, Any] | None = None  # the winner's, or the defaults

    @property
    def specs(self) -> list[Spec]:
        """All runs that can be named."""
        return [*self.tried, *self.reported]


def chosen(group: Group, rows: Rows) -> list[Chosen]:
    """The cells of a group, budget by budget in the order of the plan."""
    found = {budget: _tuned(group, budget, rows) for budget in group.plan.tuned}
    return [found[budget] if budget in found else _oneshot(group, budget) for budget in group.plan.budgets]


def best(group: Group, trials: Sequence[Sequence[Spec]], rows: Rows, count: int) -> list[int]:
    """The numbers of the best settings, ties by number; fewer where fewer have survived."""
    scores = [(_score(group, rows.get(specs[0].id)), trial) for trial, specs in enumerate(trials)]
    return [trial for score, trial in sorted(scores) if score < math.inf][:count]


def box(group: Group, trials: Sequence[Sequence[Spec]], rows: Rows) -> dict[str, Axis]:
    """The smallest box around the best settings; without a survivor all of the space."""
    top = best(group, trials, rows, BEST)
    if not top:
        return group.axes
    settings = [trials[trial][0].hyperparameters for trial in top]
    return {name: axis.boxed([one[name] for one in settings]) for name, axis in group.axes.items()}


def _score(group: Group, row: Known | None) -> float:
    """Less is better; infinite where there is nothing to go by."""
    if row is None or row.state != FINISHED or row.validation is None or not math.isfinite(row.validation):
        return math.inf
    return -row.validation if group.rising else row.validation


def _oneshot(group: Group, budget: str) -> Chosen:
    assert budget == ONESHOT
    return Chosen(group, budget, reported=group.oneshot(), hyperparameters=group.contender.defaults)


def _tuned(group: Group, budget: str, rows: Rows) -> Chosen:
    size = group.size(budget)
    refines = group.refines(budget)
    trials = [group.trial(trial) for trial in range(min(size, UNREFINED) if refines else size)]
    found = Chosen(group, budget)
    if refines and _decided(trials, rows):
        inside = box(group, trials, rows)
        trials += [group.trial(trial, inside) for trial in range(UNREFINED, size)]
    found.tried = [spec for specs in trials for spec in specs]
    found.unknown = (size - len(trials)) * group.plan.tuning_seeds
    if len(trials) < size or not _decided(trials, rows):
        found.unknown += group.plan.seeds - group.covered
        return found
    found.trial = next(iter(best(group, trials, rows, 1)), 0)
    winner = trials[found.trial][0]
    found.hyperparameters = winner.hyperparameters
    found.reported = [winner, *group.reruns(winner.hyperparameters)]
    return found


def _decided(trials: Sequence[Sequence[Spec]], rows: Rows) -> bool:
    return all(specs[0].id in rows for specs in trials)
