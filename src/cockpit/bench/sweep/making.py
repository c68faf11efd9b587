"""From a run as a sweep knows it to one that can be trained."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cockpit.bench import importing
from cockpit.bench.optimizers import choose
from cockpit.bench.plan import Plan, make_plan
from cockpit.problems._base import Place, Problem, Variant
from cockpit.problems.data.fetch import default_place
from cockpit.results.sweeps.plan import Task
from cockpit.results.sweeps.runs import Spec

VARIANTS: dict[str, Any] = {  # options that set a problem up, as `bench run` has them, if nothing is said
    **{"order": "fresh", "hessian": 0, "no_validation": False, "label_leak": False, "not_held_out": False},
    **{"shuffled_eval": False, "cut": False, "whole_eval": False},
}
USUAL = {**VARIANTS, "amp": None, "compile": False, "l2": None}


@dataclass(frozen=True)
class Context:
    """What a worker needs to know besides the runs."""

    folders: tuple[str, ...]  # where modules are looked for, after all other places
    scratch: str  # a folder for what a run that goes alone needs to be continued
    data: str | None = None  # where data are
    download: bool = True
    device: str = "cpu"

    @property
    def place(self) -> Place:
        """Where data are."""
        return Place(Path(self.data) if self.data else default_place().folder, self.download)


@dataclass
class Maker:
    """Makes plans; what they share is looked up once."""

    _problems: dict[str, Problem] = field(default_factory=dict)

    def plan(self, spec: Spec) -> Plan:
        """The plan of a run; an error is that run's failure."""
        task = spec.task
        if task.name not in self._problems:
            self._problems[task.name] = importing.problem(task.name)
        return make_plan(
            self._problems[task.name],
            choose(spec.contender.name, **spec.hyperparameters),
            seed=spec.seed,
            epochs=task.epochs,
            batch_size=task.batch,
            schedule=spec.schedule,
            variant=variant_of({**task.options, "order": task.order, "hessian": spec.matrix}),
            amp=task.options.get("amp"),
            compile=task.options.get("compile", False),
            l2=task.options.get("l2"),
            dtype=task.precision,
        )


def variant_of(options: Mapping[str, Any]) -> Variant:
    """How options of `bench run` set a problem up."""
    known = USUAL | dict(options)
    return Variant(
        validation=not known["no_validation"],
        order=known["order"],
        hessian=known["hessian"],
        label_leak=known["label_leak"],
        held_out=not known["not_held_out"],
        shuffled_eval=known["shuffled_eval"],
        cut=known["cut"],
        whole_eval=known["whole_eval"],
    )


def task_of(name: str, problem: Problem, version: int | str, options: Mapping[str, Any], **others: Any) -> Task:
    """A problem as a sweep knows it; options that are as usual do not count."""
    given = {key: value for key, value in options.items() if key in USUAL and value != USUAL[key]}
    if given.get("l2") == problem.l2:
        del given["l2"]
    known = {
        "metric": problem.metric,
        "epochs": options.get("epochs", problem.epochs),
        "batch": options.get("batch_size", problem.batch_size),
        "order": given.pop("order", VARIANTS["order"]),
        "matrix": given.pop("hessian", VARIANTS["hessian"]),
    }
    return Task(name=name, version=version, **known | others, options=given, target=problem.target)
