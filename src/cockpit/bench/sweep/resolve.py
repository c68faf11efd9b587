"""A study file resolved: its names looked up, and everything checked, before anything is trained or written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cockpit import problems
from cockpit.bench import importing, origin
from cockpit.bench.optimizers import Choice, choose, named, unwrapped
from cockpit.bench.plan import make_plan
from cockpit.bench.precision import TYPES
from cockpit.bench.schedules import NAMED, STEPS
from cockpit.bench.seeds import ORDERS
from cockpit.bench.sweep import optimizers
from cockpit.bench.sweep.making import VARIANTS, Maker, task_of, variant_of
from cockpit.bench.sweep.places import mark, places, their_words
from cockpit.bench.sweep.study import Study
from cockpit.bench.sweep.toml import Keys
from cockpit.core.errors import CockpitError
from cockpit.optimizers import KNOWN, STUDY, find
from cockpit.results.sweeps.draws import grid_size
from cockpit.results.sweeps.plan import ONESHOT, WITH_MATRICES, Contender, SweepPlan, Task, size
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.spaces import axes, axis
from cockpit.results.sweeps.words import told

EXAMPLES = {"epochs": 10, "batch_size": 128}
STUDIED, EVERY = "study", "all"  # groups of optimizers: the published study's, and all that have spaces
GROUPS = ("small", "large", "modern", "all")
RATE = "{ log = [1e-4, 1.0] }"  # suggested for a learning rate
DECAY = "{ log1m = [1e-4, 1.0] }"  # suggested for what is near 1


def resolve(study: Study, folders: Iterable[str] = ()) -> SweepPlan:
    """The plan of a study; modules are looked for in some folders, too."""
    with places(folders), their_words():
        return _Resolver(study).plan()


@dataclass(frozen=True)
class _Resolver:
    study: Study

    def plan(self) -> SweepPlan:
        """All of it."""
        study = self.study
        tasks = tuple(self._task(name, written) for written in study.problems for name in self._names(written))
        self._check_tables("problem", study.options, [task.name for task in tasks])
        contenders = tuple(self._contender(name) for written in study.optimizers for name in _optimizers(written))
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
            problem = importing.problem(name)
        except CockpitError as error:
            raise self.study.file.wrong(("problems",), str(error), written) from error
        self._check_options(name, options)
        version = origin.problem_mark(problem) if ":" in name else problem.version
        task = task_of(name, problem, version, options, **self._protocol(name))
        for key, value in (("epochs", task.epochs), ("batch_size", task.batch)):
            if value is None:
                raise self._without(key, name, written)
        return task

    def _without(self, key: str, name: str, written: str) -> CockpitError:
        said = f"{name!r} has no {key} of its own; add {key} = {EXAMPLES[key]} below [problem.{_key(name)}]"
        return self.study.file.wrong(("problems",), said, written)

    def _protocol(self, name: str) -> dict[str, Any]:
        """What the protocol sets; only of one problem the study's order of samples is known."""
        if self.study.protocol is None:
            return {}
        return {"order": "study" if name == WITH_MATRICES else "fixed", "precision": "float64"}

    def _check_options(self, name: str, options: Mapping[str, Any]) -> None:
        file = self.study.file
        for key in ("order", "hessian", "amp") if self.study.protocol else ():
            if key in options:
                raise file.wrong(("problem", name, key), f"{self.study.protocol} sets it; leave one of the two out")
        for key, known in (("order", ORDERS), ("amp", tuple(TYPES))):
            if key in options and options[key] not in known:
                raise file.unknown(("problem", name, key), options[key], known)
        if self.study.tuned and options.get("no_validation"):
            said = "settings are chosen on validation data, which this leaves out; leave it out of the file"
            raise file.wrong(("problem", name, "no_validation"), said)
        for key, value in options.items():
            try:
                if key in VARIANTS and name in problems.names():
                    make_plan(name, "SGD", seed=0, epochs=1, batch_size=1, variant=variant_of({key: value}))
            except CockpitError as error:
                raise file.wrong(("problem", name, key), str(error)) from error

    # ---- optimizers

    def _contender(self, written: str) -> Contender:
        file, rule = self.study.file, find(written)
        table = next((table for key, table in self.study.spaces.items() if _same(key, written)), None)
        choice, complete = self._choice(written, table)
        name = written if ":" in written else choice.name
        own = optimizers.defaults(choice, complete)
        space = {key: optimizers.numbers(entry, key, own.get(key)) for key, entry in (table or {}).items()}
        known = optimizers.known(choice)
        for key in space:
            if known and key not in known:
                raise file.wrong(self._table(written, key), f"unknown hyperparameter {told(key, known)}")
        try:
            choose(written, **middle(space))
        except CockpitError as error:
            keys = [key for key in space if key in str(error)][:1]
            raise file.wrong(self._table(written, *keys), str(error)) from error
        if rule is None:
            return Contender(name, mark(unwrapped(choice.make)), own, space)
        studied = rule in STUDY and (table is None or space == rule.space)
        return Contender(name, rule.version, own, dict(rule.space) if table is None else space, studied)

    def _choice(self, written: str, table: Mapping[str, Any] | None) -> tuple[Choice, bool]:
        """The optimizer, and whether it can be made without a word; if not, settings that are searched may do."""
        file = self.study.file
        try:
            return choose(written), True
        except CockpitError as error:
            if ":" not in written:
                known = (*named(), STUDIED, EVERY)
                raise file.unknown(("optimizers",), written, known, " or my_module:MyOptimizer") from error
            if table is None or ONESHOT in self.study.budgets:
                raise file.wrong(("optimizers",), f"{error}{self._hint(written, error)}", written) from error
        try:
            return choose(written, **middle(table)), False
        except CockpitError as error:
            raise file.wrong(("optimizers",), str(error), written) from error

    def _hint(self, written: str, error: CockpitError) -> str:
        """What to do about an optimizer that cannot be made with nothing said."""
        if "cannot be made" not in str(error):
            return ""
        space = f"give them below [optimizer.{_key(written)}] and leave out the budget {ONESHOT!r}"
        return f"; give its arguments defaults in the code, or {space}"

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
                    raise self._without_steps(one, key)
            for budget in plan.tuned:
                if grid_size(found) > size(budget):
                    said = f"the grid has {grid_size(found)} settings, budget {budget!r} tries {size(budget)}"
                    raise file.wrong(self._table(one.name), f"{said}; give fewer values, or a number as budget")

    def _without_steps(self, one: Contender, key: str) -> CockpitError:
        said = "a grid needs a number of values"
        if any(_same(name, one.name) for name in self.study.spaces):
            said += "; add steps = 10 to it, or give choice = [...]"
            return self.study.file.wrong(self._table(one.name, key), said)
        lines = "\n".join(_with_steps(one.space))
        said = f"{one.name!r}: {said} of {key}; add lines like\n[optimizer.{_key(one.name)}]\n{lines}"
        return self.study.file.wrong(("optimizers",), said, one.name)

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
                maker.plan(group.oneshot()[0] if ONESHOT in plan.budgets else group.trial(0)[0])
            except CockpitError as error:
                raise self.study.file.wrong(("problem", group.task.name), str(error)) from error


def _optimizers(written: str) -> tuple[str, ...]:
    """The optimizers that a word means: of a group all of them."""
    if written == STUDIED:
        return tuple(rule.name for rule in STUDY)
    return tuple(rule.name for rule in KNOWN.values()) if written == EVERY else (written,)


def _same(one: str, other: str) -> bool:
    """Whether two names mean the same optimizer or problem."""
    return one == other if ":" in one + other else one.lower() == other.lower()


def middle(space: Mapping[str, Any]) -> dict[str, Any]:
    """A setting from the middle of a space."""
    return {key: axis(entry).at(0.5) for key, entry in space.items()}


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


def _with_steps(space: Mapping[str, Any]) -> Iterable[str]:
    """The lines of a space with a number of values for each interval."""
    for name, entry in space.items():
        if not isinstance(entry, Mapping):
            yield f"{name} = {entry}"
            continue
        steps = "" if axis(entry).grid() else ", steps = 10"
        yield f"{name} = {{ {', '.join(f'{key} = {value}' for key, value in entry.items())}{steps} }}"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
