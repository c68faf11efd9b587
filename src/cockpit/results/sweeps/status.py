"""How far a sweep is."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cockpit.results.sweeps.plan import ONESHOT, SweepPlan, size
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.selection import Chosen, chosen
from cockpit.results.sweeps.store import STATES, Row, Store

_NAMED = ("id", "problem", "optimizer", "hyperparameters", "schedule", "seed")


@dataclass(frozen=True, slots=True)
class Count:
    """The runs of a plan: every one once, however many cells share it."""

    ids: frozenset[str]  # that can be named
    unknown: int  # at most so many more, named when others have ended
    rows: Mapping[str, Row]  # the results of those that have ended

    @property
    def distinct(self) -> int:
        """All of them."""
        return len(self.ids) + self.unknown

    @property
    def left(self) -> int:
        """Those that have not ended."""
        return self.distinct - len(self.rows)


def count(cells: Iterable[Chosen], rows: Mapping[str, Row]) -> Count:
    """Count the runs of some cells."""
    ids: set[str] = set()
    unknown = 0
    refined: dict[int, int] = {}
    for one in cells:
        ids.update(spec.id for spec in one.specs)
        unknown += one.unknown
        refined.setdefault(id(one.group), 0)
    return Count(frozenset(ids), unknown, {key: rows[key] for key in ids if key in rows})


def nominal(plan: SweepPlan) -> int:
    """The runs of the protocol: budgets share settings, but no winner is taken to win twice."""
    seeds = plan.seeds if ONESHOT in plan.budgets else 0
    tuned = [group_size for budget in plan.tuned for group_size in [size(budget)]]
    each = seeds + max(tuned, default=0) * plan.tuning_seeds + len(tuned) * (plan.seeds - 1)
    return each * len(plan.problems) * len(plan.optimizers) * len(plan.schedules) * len(plan.seed)
