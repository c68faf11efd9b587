"""Plans and results that need no training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cockpit.results.sweeps.plan import Contender, SweepPlan, Task
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.store import Entry, Row

ADAM = {"lr": {"log": [1e-4, 1.0]}, "beta1": {"log": [0.5, 0.999]}, "beta2": {"log": [0.8, 0.999]}}
QUADRATIC = Task("quadratic_deep", 1, "loss", epochs=2, batch=128)
SGD = Contender("SGD", 1, {"lr": 0.01}, {"lr": {"log": [1e-4, 1.0]}}, studied=True)
PLAN = SweepPlan("test", (QUADRATIC,), (SGD,), ("oneshot", "small"), ("constant",), "random", (42,), 10)


def plan(**changes: Any) -> SweepPlan:
    """A plan that differs from PLAN."""
    return replace(PLAN, **changes)


def row(validation: float | None, state: str = "finished") -> Row:
    """A result at a glance."""
    return Row(state, validation, 1.0, 1)


def entry(spec: Spec, valid: float = 1.0, test: float = 2.0, state: str = "finished", **others: Any) -> Entry:
    """A result with straight curves."""
    kind = spec.task.metric
    values = {f"train_{kind}": 3.0, f"valid_{kind}": valid, f"test_{kind}": test, "train_loss": 3.0}
    epochs = others.pop("length", spec.task.epochs + 1)
    curves = {} if state == "failed" else {metric: [value] * epochs for metric, value in values.items()}
    return Entry(spec.id, spec.identity, state, curves, machine={"torch": "2"}, seconds=1.0, **others)


def scores(value: Callable[[Spec], float | None], state: Callable[[Spec], str] = lambda spec: "finished") -> Any:
    """Rows that are there for every run, made of the run."""

    class All(dict[str, Row]):
        def at(self, specs: list[Spec]) -> All:
            self.update({spec.id: row(value(spec), state(spec)) for spec in specs})
            return self

    return All()
