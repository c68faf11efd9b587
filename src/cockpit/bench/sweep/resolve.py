"""A study file resolved: its names looked up, and everything checked, before anything is trained or written."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cockpit import problems
from cockpit.bench.optimizers import Choice, choose, named, unwrapped
from cockpit.bench.plan import make_plan
from cockpit.bench.schedules import NAMED, STEPS
from cockpit.bench.sweep.making import Maker, problem_of, task_of
from cockpit.bench.sweep.places import mark, places
from cockpit.bench.sweep.study import Study
from cockpit.bench.sweep.toml import Keys, told
from cockpit.core.errors import CockpitError
from cockpit.optimizers import STUDY, find
from cockpit.results.sweeps.draws import grid_size
from cockpit.results.sweeps.plan import Contender, SweepPlan, Task, size
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.spaces import axes, axis

GROUPS = ("small", "large", "modern", "all")
RATE = "{ log = [1e-4, 1.0] }"  # suggested for a learning rate
DECAY = "{ log1m = [1e-4, 1.0] }"  # suggested for what is near 1


def resolve(study: Study, folders: Iterable[str] = ()) -> SweepPlan:
    """The plan of a study; modules are looked for in some folders, too."""
    with places(folders):
        return _Resolver(study).plan()


@dataclass(frozen=True)
class _Resolver:
    study: Study

    def plan(self) -> SweepPlan:
        """All of it."""
        study = self.study
        tasks = tuple(self._task(name, written) for written in study.problems for name in self._names(written))
        self._check_tables("problem", study.options, [task.name for task in tasks])
        contenders = tuple(map(self._contender, study.optimizers))
        self._check_tables("optimizer", study.spaces, [one.name for one in contenders])
        self._check_twice("problems", [task.name for task in tasks])
        self._check_twice("optimizers", [one.name for one in contenders])
        plan = SweepPlan(
            name=study.name,
            problems=tasks,
            optimizers=contenders,
            budgets=study.budgets,
            schedules=study.schedules,
            search=study.search,
            seed=study.seed,
            seeds=study.seeds,
            tuning_seeds=study.tuning_seeds,
            protocol=study.protocol,
        )
        self._check_searchable(plan)
        self._check_schedules(plan)
        self._try(plan)
        return plan

    # ---- problems

    def _names(self, written: str) -> tuple[str, ...]:
        if written in GROUPS:
            return problems.group(written)
        if ":" not in written and written not in problems.names():
            raise self.study.file.unknown(("problems",), written, (*problems.names(), *GROUPS))
        return (written,)

    def _task(self, name: str, written: str) -> Task:
        options = dict(self.study.options.get(name, {}))
        try:
            problem = problem_of(name)
        except CockpitError as error:
            raise self.study.file.wrong(("problems",), str(error), written) from error
        version = mark(problem.model) if ":" in name else problem.version
        if self.study.tuned and options.get("no_validation"):
            raise self.study.file.wrong(
                ("problem", name, "no_validation"), "settings are chosen on validation data; leave it out"
            )
        task = task_of(name, problem, version, options)
        for key, value in (("epochs", task.epochs), ("batch_size", task.batch)):
            if value is None:
                raise self.study.file.wrong(
                    ("problems",), f"{name!r} has no {key} of its own; add it below [problem.{_key(name)}]", written
                )
        return task

    # ---- optimizers

    def _contender(self, written: str) -> Contender:
        file, rule = self.study.file, find(written)
        try:
            choice = choose(written)
        except CockpitError as error:
            if ":" in written:
                raise file.wrong(("optimizers",), str(error), written) from error
            raise file.unknown(("optimizers",), written, named(), " or my_module:MyOptimizer") from error
        name = written if ":" in written else choice.name
        space = next((table for key, table in self.study.spaces.items() if _same(key, name)), None)
        if space is not None:
            space = {key: self._entry(written, choice, key, entry) for key, entry in space.items()}
        if rule is not None:
            own = dict(rule.space) if space is None else space
            studied = rule in STUDY and own == rule.space
            return Contender(name, rule.version, dict(rule.defaults), own, studied)
        return Contender(name, mark(unwrapped(choice.make)), _defaults(choice), space or {})

    def _entry(self, optimizer: str, choice: Choice, key: str, entry: Any) -> Any:
        """An entry of a space, its numbers as the optimizer takes them."""
        whole = isinstance(_defaults(choice).get(key), int)
        found = _floats(entry, key != "lr" and whole)
        try:
            choose(optimizer, **{key: axis(found).at(0.5)})
        except CockpitError as error:
            known = _known(choice)
            said = f"unknown hyperparameter {told(key, known)}" if known and key not in known else str(error)
            raise self.study.file.wrong(self._table(choice.name, key), said) from error
        return found

    def _table(self, name: str, *keys: str) -> Keys:
        written = next((key for key in self.study.spaces if _same(key, name)), name)
        return ("optimizer", written, *keys)

    # ---- checks

    def _check_tables(self, key: str, tables: Mapping[str, Any], names: list[str]) -> None:
        for name in tables:
            if not any(_same(name, known) for known in names):
                raise self.study.file.wrong((key, name), f"{told(name, names)} (the {key}s of this study)")

    def _check_twice(self, key: str, names: list[str]) -> None:
        for place, name in enumerate(names):
            if name in names[:place]:
                raise self.study.file.wrong((key,), f"{name!r} is meant twice; once is enough", name)

    def _check_searchable(self, plan: SweepPlan) -> None:
        """Whether every tuned budget has something to try."""
        file = self.study.file
        for one in plan.optimizers if plan.tuned else ():
            if not one.space:
                lines = "\n".join(_suggested(one))
                said = (
                    f"{one.name!r} has no space to search, but budget {plan.tuned[0]!r} does; add lines like\n{lines}"
                )
                raise file.wrong(("optimizers",), said, one.name)
            if plan.search != "grid":
                continue
            found = axes(one.space)
            for key, one_axis in found.items():
                if not one_axis.grid():
                    said = "a grid needs a number of values; add steps = 10 to it, or give choice = [...]"
                    raise file.wrong(self._table(one.name, key), said)
            for budget in plan.tuned:
                if grid_size(found) > size(budget):
                    said = f"the grid has {grid_size(found)} settings, budget {budget!r} tries {size(budget)}"
                    raise file.wrong(self._table(one.name), f"{said}; give fewer values, or a number as budget")

    def _check_schedules(self, plan: SweepPlan) -> None:
        for schedule in plan.schedules:
            if schedule not in NAMED and "@" not in schedule:
                raise self.study.file.unknown(("schedules",), schedule, NAMED, f", or steps like {STEPS}")
            try:
                make_plan("quadratic_deep", "SGD", seed=0, schedule=schedule)
            except CockpitError as error:
                raise self.study.file.wrong(("schedules",), str(error), schedule) from error

    def _try(self, plan: SweepPlan) -> None:
        """Plan one run of each group: what is wrong with it is said before anything is trained."""
        maker = Maker()
        for group in groups(plan):
            try:
                maker.plan(group.oneshot()[0])
            except CockpitError as error:
                raise self.study.file.wrong(("problem", group.task.name), str(error)) from error


def _same(one: str, other: str) -> bool:
    """Whether two names mean the same optimizer or problem."""
    return one == other if ":" in one + other else one.lower() == other.lower()


def _floats(entry: Any, whole: bool) -> Any:
    """Whole numbers as floats, where the optimizer has floats."""
    if whole or isinstance(entry, bool):
        return entry
    if isinstance(entry, int):
        return float(entry)
    if isinstance(entry, dict) and "choice" in entry:
        return entry | {"choice": [_floats(value, whole) for value in entry["choice"]]}
    return entry


def _signature(choice: Choice) -> dict[str, Any]:
    """What an optimizer takes besides its parameters, with its own defaults."""
    try:
        parameters = list(inspect.signature(choice.make).parameters.values())[1:]
    except (TypeError, ValueError):
        return {}
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return {}
    found = {one.name: None if one.default is one.empty else one.default for one in parameters}
    if "betas" in found:
        betas = found.pop("betas")
        found |= dict(zip(("beta1", "beta2"), betas if isinstance(betas, tuple) else (0.9, 0.999), strict=False))
    return found


def _known(choice: Choice) -> list[str]:
    """The hyperparameters of an optimizer; none where it does not tell."""
    rule = find(choice.name)
    return list(rule.defaults if rule is not None else _signature(choice))


def _defaults(choice: Choice) -> dict[str, Any]:
    """The numbers that an optimizer has if nothing is said."""
    if (rule := find(choice.name)) is not None:
        return dict(rule.defaults)
    numbers = {
        name: value
        for name, value in _signature(choice).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return numbers | choice.hyperparameters


def _suggested(one: Contender) -> Iterable[str]:
    """Lines that give an optimizer a space."""
    yield f"[optimizer.{_key(one.name)}]"
    for name, value in one.defaults.items():
        if name == "lr":
            yield f"lr = {RATE}"
        elif isinstance(value, float) and 0.5 <= value < 1:
            yield f"{name} = {DECAY}"
        else:
            yield f"{name} = {value}  # a number fixes it"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
