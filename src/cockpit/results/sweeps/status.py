"""How far a sweep is."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cockpit.results.sweeps.plan import ONESHOT, SweepPlan
from cockpit.results.sweeps.runs import Spec, groups
from cockpit.results.sweeps.selection import Chosen, chosen
from cockpit.results.sweeps.store import STATES, Row, Store

_NAMED = ("id", "problem", "optimizer", "hyperparameters", "schedule", "seed")


@dataclass(frozen=True, slots=True)
class Count:
    """The runs of a plan: every one once, however many cells share it."""

    specs: Mapping[str, Spec]  # those that can be named, by id
    unknown: int  # at most so many more, named when others have ended
    rows: Mapping[str, Row]  # the results of those that have ended

    @property
    def distinct(self) -> int:
        """All of them."""
        return len(self.specs) + self.unknown

    @property
    def left(self) -> int:
        """Those that have not ended."""
        return self.distinct - len(self.rows)

    def states(self) -> dict[str, int]:
        """How many ended in which way."""
        ended = [row.state for row in self.rows.values()]
        return {state: ended.count(state) for state in STATES}


def count(cells: Iterable[Chosen], rows: Mapping[str, Row]) -> Count:
    """Count the runs of some cells."""
    specs: dict[str, Spec] = {}
    unknown: dict[tuple[frozenset[str], int], int] = {}  # once for budgets that try the same: they have one winner
    for one in cells:
        specs |= {spec.id: spec for spec in one.tried}
        specs |= {spec.id: spec for spec in one.reported}
        if one.unknown:
            unknown[frozenset(spec.id for spec in one.tried), one.unknown] = one.unknown
    return Count(specs, sum(unknown.values()), {id: rows[id] for id in specs if id in rows})


def nominal(plan: SweepPlan) -> int:
    """The runs of the protocol: budgets share their settings, and no setting is taken to win twice."""
    seeds = plan.seeds if ONESHOT in plan.budgets else 0
    tuned = plan.tuned
    sizes = [max((group.size(budget) for budget in tuned), default=0) for group in groups(plan)]
    return sum(seeds + size * plan.tuning_seeds + len(tuned) * (plan.seeds - 1) for size in sizes)


def status(plan: SweepPlan, store: Store | None, alive: bool, details: bool = False) -> dict[str, Any]:
    """How far a sweep is, as its JSON has it.

    Args:
        plan: What is asked for; other results of the store do not count.
        store: Its results; None before the first sweep.
        alive: Whether a sweep is at work.
        details: Whether to add each result.
    """
    rows = {} if store is None else store.rows()
    counted = count([one for group in groups(plan) for one in chosen(group, rows)], rows)
    ended = counted.states()
    leased, workers = store.leased() if store is not None and alive else (0, os.cpu_count() or 1)
    seconds = seconds_left(counted)
    found: dict[str, Any] = {
        "name": plan.name,
        "state": "running" if alive else "complete" if counted.left == 0 else "stopped",
        "runs": {
            "nominal": nominal(plan),
            "distinct": counted.distinct,
            **ended,
            "leased": leased,
            "left": counted.left,
        },
        "seconds_left": None if seconds is None else seconds / max(workers, 1),
        "failures": _failures(store, counted) if store is not None and ended["failed"] else [],
    }
    return found | ({"results": _results(store, counted)} if details else {})


def seconds_left(counted: Count) -> float | None:
    """Seconds of one worker for what is left; None where no run has ended.

    A run takes as long as those of its problem and optimizer before, or of its problem, or all.
    """
    if counted.left == 0:
        return 0.0
    taken: dict[tuple[str, ...], list[float]] = {}
    for id, row in counted.rows.items():
        for kind in _kinds(counted.specs[id]) if row.seconds > 0 else ():
            taken.setdefault(kind, []).append(row.seconds)
    if not taken:
        return None
    usual = {kind: sum(held) / len(held) for kind, held in taken.items()}
    left = [spec for id, spec in counted.specs.items() if id not in counted.rows]
    named = sum(next(usual[kind] for kind in _kinds(spec) if kind in usual) for spec in left)
    return named + counted.unknown * usual[()]


def _kinds(spec: Spec) -> tuple[tuple[str, ...], ...]:
    """What runs are like it, the most alike first."""
    return (spec.task.name, spec.contender.name), (spec.task.name,), ()


def _failures(store: Store, counted: Count) -> list[dict[str, Any]]:
    failed = store.records((id for id, row in counted.rows.items() if row.state == "failed"))
    return [{name: one[name] for name in (*_NAMED, "message")} for one in failed]


def _results(store: Store | None, counted: Count) -> list[dict[str, Any]]:
    names = (*_NAMED, "state", "curves")
    ended = [] if store is None else store.records(sorted(counted.rows))
    return [{name: one[name] for name in names} for one in ended]
