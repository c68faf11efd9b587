"""What a run is to do, complete and checked: the problem as it is set up, the optimizer, and every number."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

from torch import device
from torch.optim import Optimizer

from cockpit import problems
from cockpit.bench import importing, origin, rates
from cockpit.bench.folders import run_folder
from cockpit.bench.optimizers import Choice, choose
from cockpit.bench.precision import DTYPES
from cockpit.bench.seeds import ORDERS
from cockpit.core.errors import CockpitError, unknown
from cockpit.problems._base import Problem, Variant
from cockpit.results.result import Result

# Parts of a variant that only some problems have, by the beginning of their names.
MEANT: dict[str, tuple[str, ...]] = {
    "hessian": ("quadratic_deep",),
    "label_leak": ("cifar100_",),
    "held_out": ("cifar10_", "svhn_"),
    "shuffled_eval": ("quadratic_", "two_d_", "mnist_", "fmnist_", "cifar10_", "cifar100_", "svhn_", "imagenet_"),
    "cut": ("svhn_",),
    "whole_eval": ("tolstoi_char_rnn",),
}

STUDIED = "quadratic_deep"  # whose order of samples in the study is known

Chosen = str | type[Optimizer] | Choice | Callable[..., Optimizer]


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    problem: Problem
    choice: Choice
    seed: int
    epochs: int
    batch_size: int
    schedule: rates.Given
    variant: Variant
    amp: str | None
    compile: bool | str
    log_interval: int
    extras: Mapping[str, Any]  # what differs from the problem's own, by the names that a folder has
    problem_code: str | None = None  # a mark of the problem's code, where that is the user's own
    dtype: str = "float32"  # of parameters and data; "float64"

    @property
    def title(self) -> str:
        """What it is, but for the seed, in a few words."""
        return f"{self.problem.name} {self.choice.name} lr {self.choice.hyperparameters['lr']:.3g}"

    def folder(self, out: Path) -> Path:
        """Where the run lies below a folder of runs."""
        return run_folder(out, self.problem.name, self.choice.name, self.choice.hyperparameters, self.extras, self.seed)

    def result(self) -> Result:
        """The result before anything is known."""
        own = {key: value for key, value in asdict(self.variant).items() if value != getattr(Variant(), key)}
        others = {key: self.extras[key] for key in ("l2", "amp", "compile", "dtype") if key in self.extras}
        return Result(
            problem=self.problem.name,
            optimizer=self.choice.name,
            hyperparameters=dict(self.choice.hyperparameters),
            seed=self.seed,
            batch_size=self.batch_size,
            epochs=self.epochs,
            curves={},
            schedule=self.extras.get("schedule", "constant"),
            variant=own | others,
            log_interval=self.log_interval,
            complete=False,
            code=self.choice.code,
            problem_code=self.problem_code,
            target=self.problem.target,
            rule=self.choice.rule,
        )

    def settings(self) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        known = asdict(self.result())
        names = ("problem", "optimizer", "hyperparameters", "seed", "batch_size", "epochs", "schedule", "variant")
        return {name: known[name] for name in (*names, "log_interval", "code", "rule", "problem_code")}


def make_plan(
    problem: str | Problem,
    optimizer: Chosen,
    *,
    seed: int,
    epochs: int | None = None,
    batch_size: int | None = None,
    schedule: rates.Given = "constant",
    variant: Variant | None = None,
    amp: str | None = None,
    compile: bool | str = False,
    l2: float | None = None,
    log_interval: int = 10,
    dtype: str = "float32",
    **hyperparameters: Any,
) -> Plan:
    """Look everything up and check it."""
    if dtype not in DTYPES:
        raise unknown("type of numbers", dtype, DTYPES)
    if dtype != "float32" and amp is not None:
        raise CockpitError(f"amp is {amp}, dtype {dtype}: mixed precision is for float32; give one of the two")
    variant = variant or Variant()
    own = importing.problem(problem)
    if own.name in problems.names() and not _same(own, problems.get(own.name)):
        raise CockpitError(f"{own.name} is the name of another problem, whose runs are known by it; give yours its own")
    _check_variant(variant, own.name)
    number = _length("epochs", epochs, own.epochs, own.name, least=0)
    size = _length("batch_size", batch_size, own.batch_size, own.name, least=1)
    seed = _whole("seed", seed, 0, 2**63 - 1)
    _whole("log_interval", log_interval, 1)
    rates.check(schedule, number)
    adapted = _adapted(own, variant, l2)
    return Plan(
        adapted,
        _choice(optimizer, hyperparameters),
        seed,
        number,
        size,
        schedule,
        variant,
        amp,
        compile,
        log_interval,
        _extras(own, number, size, schedule, variant, adapted.l2, amp, compile, dtype),
        None if own.name in problems.names() else origin.problem_mark(own),
        dtype,
    )


def _adapted(own: Problem, variant: Variant, l2: float | None) -> Problem:
    """The problem as it is set up."""
    adapted = problems.adapt(own, variant)
    if l2 is None:
        return adapted
    adapted = replace(adapted, l2=_factor(l2))
    if own.name in problems.names():
        with device("meta"):
            adapted.regularisation(adapted.model(0))  # says if there is nothing to regularise
    return adapted


def _same(one: Problem, other: Problem) -> bool:
    """Whether two problems are the same but for what is said about them; a copy of a partial is not equal to it."""

    def parts(value: Any) -> Any:
        if not isinstance(value, partial):
            return value
        bound = {name: parts(inner) for name, inner in value.keywords.items()}
        return partial, parts(value.func), tuple(map(parts, value.args)), bound

    names = [field.name for field in fields(Problem) if field.name not in ("summary", "paper")]
    return all(parts(getattr(one, name)) == parts(getattr(other, name)) for name in names)


def meant(variant: Variant, problem: str) -> Variant:
    """The variant without the parts that a problem does not have."""
    own = {part: getattr(Variant(), part) for part, names in MEANT.items() if not problem.startswith(names)}
    return replace(variant, **own)


def _check_variant(variant: Variant, problem: str) -> None:
    if variant.order not in ORDERS:
        raise unknown("order of mini-batches", variant.order, ORDERS)
    if variant.order == "study" and problem != STUDIED:
        raise CockpitError(
            f"the study's order of samples is known for {STUDIED} alone, not for {problem}; "
            "--order fixed gives each seed an order of its own that stays, as there"
        )
    if problem not in problems.names():  # data of one's own may take it as they like
        return
    for part, names in MEANT.items():
        if getattr(variant, part) != getattr(meant(variant, problem), part):
            raise CockpitError(f"{problem} has no variant {part}: it is for {' and '.join(names)}; leave it out")


def _extras(
    own: Problem,
    epochs: int,
    batch_size: int,
    schedule: rates.Given,
    variant: Variant,
    l2: float,
    amp: str | None,
    compile: bool | str,
    dtype: str,
) -> dict[str, Any]:
    """What differs from the problem's own settings."""
    named = {
        "epochs": epochs if epochs != own.epochs else None,
        "batch": batch_size if batch_size != own.batch_size else None,
        "schedule": None if schedule == "constant" else rates.label(schedule, epochs),
        "order": None if variant.order == "fresh" else variant.order,
        "no_validation": None if variant.validation else True,
        "hessian": variant.hessian or None,
        "label_leak": variant.label_leak or None,
        "not_held_out": None if variant.held_out else True,
        "shuffled_eval": variant.shuffled_eval or None,
        "cut": variant.cut or None,
        "whole_eval": variant.whole_eval or None,
        "l2": None if l2 == own.l2 else l2,
        "amp": amp,
        "compile": compile or None,
        "dtype": None if dtype == "float32" else dtype,
    }
    return {name: value for name, value in named.items() if value is not None}


def _choice(optimizer: Chosen, hyperparameters: dict[str, Any]) -> Choice:
    if not isinstance(optimizer, Choice):
        return choose(optimizer, **hyperparameters)
    if hyperparameters:
        names = ", ".join(hyperparameters)
        raise CockpitError(f"{names}: {optimizer.name} was already chosen with its hyperparameters; give them there")
    return optimizer


def _length(name: str, given: int | None, own: int | None, problem: str, least: int) -> int:
    value = own if given is None else given
    if value is None:
        raise CockpitError(f"{problem} has no {name} of its own; give {name} (--{name.replace('_', '-')})")
    return _whole(name, value, least)


def _whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise CockpitError(f"{name} is {value!r}; give a whole number, {least} or more")
    if most is not None and int(value) > most:
        raise CockpitError(f"{name} is {value}; give a whole number, {most} or less")
    return int(value)


def _factor(l2: Any) -> float:
    if not isinstance(l2, int | float) or isinstance(l2, bool) or not 0 <= l2 < float("inf"):
        raise CockpitError(f"l2 is {l2!r}; give a factor, 0 or more")
    return float(l2)
