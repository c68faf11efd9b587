"""This package as the benchmarks see it."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nets import Problem

import cockpit
from cockpit.core.ledger import ledger
from cockpit.quantities import QUANTITIES
from cockpit.store import StoredRun


@dataclass
class Watched:
    """Training under watch, and afterwards what was found."""

    step: Any
    tracked: int = 0  # steps at which anything was measured
    complete: int = 0  # steps at which everything was
    undefined: dict[str, str] = field(default_factory=dict)  # quantities that never had a value, and why
    tiers: dict[str, int] = field(default_factory=dict)  # steps at which the quantities of a tier were measured
    used: float | None = None  # share of the training time that the budget itself believes to have taken
    pit: Any = None

    def read(self, clock: Callable[[], float]) -> None:
        """Let the budget take its time from another clock."""
        self.pit._tracker.schedule.clock = clock

    def closed(self, pit: Any, place: Path) -> None:
        """Take down what the run shows."""
        output = pit.get_output()
        names = {quantity.name for quantity in pit._tracker.quantities}
        measured = [names & set(values) for values in output.values()]
        self.tracked, self.complete = sum(map(bool, measured)), measured.count(names)
        defined = {name for values in output.values() for name, value in values.items() if value is not None}
        for name, reasons in pit.history.reasons().items():
            if name not in defined:
                self.undefined[name] = next(iter(reasons))
        cost = ledger(StoredRun(place).metadata)
        self.tiers, self.used, self.pit = {tier.name: tier.tracked for tier in cost.tiers}, cost.used, None


class Ours:
    """``cockpit.watch`` with a run on disk, as users have it; the folder is deleted afterwards."""

    name = "cockpit"
    quantities = tuple(QUANTITIES)

    def pair(self, net: str, device: str, optimizer: str) -> tuple[Problem, Problem]:
        """What takes plain steps and what is watched: the same model."""
        problem = Problem(net, device, optimizer)
        return problem, problem

    def prepared(self, problem: Problem) -> Problem:
        """Nothing needs to be done to a model."""
        return problem

    @contextmanager
    def watch(self, problem: Problem, what: str, every: Any, **options: Any) -> Iterator[Watched]:
        """Watch a problem; ``what`` is a preset or the name of a quantity."""
        found = Watched(problem.step)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "run"
            parts = (problem.model, problem.optimizer, problem.loss_fn)
            with cockpit.watch(*parts, quantities=what, every=every, run=place, **options) as pit:
                found.pit = pit
                yield found
            found.closed(pit, place)


TOOL = Ours()
