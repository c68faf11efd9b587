"""Which optimizer, with which hyperparameters: a rule of the study, a name of torch, a class, or an import path."""

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from cockpit.bench import origin
from cockpit.bench.importing import load
from cockpit.core.errors import CockpitError, unknown
from cockpit.optimizers import KNOWN, find
from cockpit.optimizers.rule import Known
from cockpit.optimizers.ruled import RuleOptimizer
from cockpit.optimizers.wrapper import build, check

Make = Callable[..., Optimizer]

NAMELESS = "<lambda>"
# Where torch has what the study calls otherwise.
_IN_TORCH = {
    "SGD": "Momentum, NAG, or torch.optim:SGD",
    "Momentum": "torch.optim:SGD with momentum=0.99",
    "NAG": "torch.optim:SGD with momentum=0.99 and nesterov=true",
    "AMSGrad": "torch.optim:Adam with amsgrad=true",
}


def named() -> dict[str, Make]:
    """Every optimizer that is known by name: the rules, and what torch has besides."""
    torchs = {name: kind for name, kind in vars(torch.optim).items() if _is_optimizer(kind) and kind is not Optimizer}
    return torchs | {name: partial(build, rule=name) for name in KNOWN}


@dataclass(frozen=True, slots=True)
class Choice:
    """An optimizer and its hyperparameters; those that are not listed have the optimizer's own defaults."""

    name: str
    hyperparameters: dict[str, Any]  # flat: beta1 and beta2, not betas; always with "lr"
    make: Make
    code: str | None = None  # a mark of the optimizer's code, where that is not torch's
    rule: int | None = None  # the version of the rule, where it is one of cockpit.optimizers

    def build(self, parameters: Iterable[Any]) -> Optimizer:
        """Make the optimizer of these parameters (or groups of them)."""
        try:
            made = self.make(parameters, **_packed(self.make, self.hyperparameters))
        except (TypeError, ValueError) as error:
            raise CockpitError(f"{self.name} with {self.hyperparameters} cannot be made: {error}") from error
        if not (hasattr(made, "step") and hasattr(made, "param_groups")):
            raise CockpitError(f"{self.name} makes a {type(made).__name__}; return a torch.optim.Optimizer")
        return made

    @property
    def needs_closure(self) -> bool:
        """Whether ``step`` must be given a function that computes the loss again, as LBFGS's must."""
        step = getattr(unwrapped(self.make), "step", None)
        closure = inspect.signature(step).parameters.get("closure") if step else None
        return closure is not None and closure.default is closure.empty


def choose(optimizer: str | Make, *, beside: Sequence[Path] = (), **hyperparameters: Any) -> Choice:
    """Choose an optimizer by name, class or function: ``choose("Adam", lr=1e-3)``, ``choose(MyOptimizer, lr=0.1)``.

    A name counts in any case of letters: one of the study's is its rule, with its defaults; any other is torch's.
    ``"package.module:Class"`` is imported, with folders ``beside`` and the working directory searched after all other
    places, and is called as it was written. ``beta1`` and ``beta2`` may stand for ``betas``. A ``functools.partial``
    adds what it binds; a lambda, which has no name, is called after the optimizer that it makes. Code that is neither
    ours nor torch's is marked: two that share a name are never taken for one.
    """
    rule = find(optimizer) if isinstance(optimizer, str) else None
    if rule is not None:
        return _ruled(rule, flat(hyperparameters))
    name, make = chosen(optimizer, beside)
    settings = _defaults(make) | flat(_bound(optimizer)) | flat(hyperparameters)
    _check(name, make, settings)
    if "lr" in settings:
        settings["lr"] = float(settings["lr"])
    choice = Choice(name, settings, make, origin.mark(unwrapped(make)))
    if "lr" not in settings or _is_torchs(make):
        shape = (1, 1) if name == "Muon" else (1,)  # Muon takes matrices only
        built = choice.build([torch.nn.Parameter(torch.zeros(shape))])  # torch finds values that make no sense here
        if "lr" not in built.param_groups[0]:
            raise CockpitError(f"{name} has no 'lr' in its parameter groups; a schedule needs one, so add it there")
        settings.setdefault("lr", float(built.param_groups[0]["lr"]))
    return _told(choice) if name == NAMELESS else choice


def _ruled(rule: Known, given: dict[str, Any]) -> Choice:
    """One of the rules; what only torch's optimizer of that name has is told from what nobody has."""
    torchs = "SGD" if rule.name in ("Momentum", "NAG") else "Adam" if rule.name == "AMSGrad" else rule.name
    known = _signature(getattr(torch.optim, torchs)) if hasattr(torch.optim, torchs) else {}
    for name, value in given.items():
        if name not in rule.defaults and name in known:
            raise CockpitError(
                f"{rule.name} follows a rule that has no {name} (it has {', '.join(rule.defaults)}); "
                f"give {_IN_TORCH.get(rule.name, f'torch.optim:{rule.name}')}"
            )
        check(rule, name, value)
    settings = rule.defaults | given
    kinds = {name: int if name == "k" else float for name in settings}
    settings = {name: kinds[name](value) for name, value in settings.items()}
    return Choice(rule.name, settings, partial(build, rule=rule.name), rule=rule.version)


def unwrapped(make: Make) -> Any:
    """The class or function inside of partials."""
    while isinstance(make, partial):
        make = make.func
    return make


def hyperparameter(text: str) -> tuple[str, Any]:
    """Read ``name=value`` of a command line: a number, true or false, none, a word, or several with commas between."""
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (sign and name.replace("-", "_").isidentifier() and value):
        raise CockpitError(f"hyperparameter {text!r} is not name=value; give it like lr=0.01")
    values = tuple(_value(part.strip()) for part in value.split(","))
    return name.replace("-", "_"), values if len(values) > 1 else values[0]


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _bound(optimizer: str | Make) -> dict[str, Any]:
    """Return what partials have bound: a run that differs by it is another one."""
    return {**_bound(optimizer.func), **optimizer.keywords} if isinstance(optimizer, partial) else {}


def _told(choice: Choice) -> Choice:
    """Name a function without a name after the optimizer it makes, with the settings that differ from its defaults."""
    try:
        built = choice.build([torch.nn.Parameter(torch.zeros(1, 1))])
    except CockpitError as error:
        raise CockpitError(
            f"{error}; a lambda is known by what it makes of a matrix: write a function with def"
        ) from error
    if isinstance(built, RuleOptimizer):
        known = {key: built.param_groups[0][key] for key in built.rule.defaults}
        return Choice(built.rule.name, known | choice.hyperparameters, choice.make, rule=built.rule.version)
    defaults = {key: taken.default for key, taken in _signature(type(built)).items()}
    own = {key: value for key, value in built.defaults.items() if key in defaults and value != defaults[key]}
    known = flat(own) | choice.hyperparameters
    return Choice(_called(type(built)), known, choice.make, origin.mark(type(built)))


def _is_optimizer(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Optimizer)


def _is_torchs(make: Make) -> bool:
    return unwrapped(make) in vars(torch.optim).values()


def chosen(optimizer: str | Make, beside: Sequence[Path] = ()) -> tuple[str, Make]:
    """Return the name and the class (or function) that is meant."""
    if not isinstance(optimizer, str):
        if not callable(optimizer):
            raise CockpitError(
                f"optimizer is {optimizer!r}; give a name, an optimizer class, or a function that makes one"
            )
        return _called(optimizer), optimizer
    if ":" in optimizer:
        make = load("optimizer", optimizer, beside)
        if not callable(make):
            raise CockpitError(
                f"optimizer {optimizer!r} is {make!r}; give a class or a function that makes an optimizer"
            )
        return optimizer, make
    known = {name.lower(): (name, make) for name, make in named().items()}
    if optimizer.lower() not in known:
        raise unknown("optimizer", optimizer, [*named(), "package.module:Class"])
    return known[optimizer.lower()]


def _called(make: Make) -> str:
    """The path by which it can be imported: ``"torch.optim:SGD"``, ``"package.module:Mine"``."""
    inner = unwrapped(make)
    if getattr(inner, "__name__", None) == NAMELESS:
        return NAMELESS
    name = str(getattr(inner, "__qualname__", type(inner).__qualname__)).replace("<locals>.", "")
    if getattr(torch.optim, name, None) is inner:
        return f"torch.optim:{name}"
    whole = origin.named(inner)
    module = whole.removesuffix(f".{name}") if whole != name else str(inner.__module__)
    return f"{module}:{name}"


def _signature(make: Make) -> dict[str, inspect.Parameter]:
    """Return what an optimizer takes besides the parameters, which come first."""
    try:
        parameters = list(inspect.signature(make).parameters.values())[1:]
    except (TypeError, ValueError):  # some built-in callables do not tell
        return {"hyperparameters": inspect.Parameter("hyperparameters", inspect.Parameter.VAR_KEYWORD)}
    return {parameter.name: parameter for parameter in parameters}


def _defaults(make: Make) -> dict[str, Any]:
    """The rate that the optimizer has by itself."""
    lr = _signature(make).get("lr")
    return {} if lr is None or lr.default is lr.empty else {"lr": lr.default}


def flat(hyperparameters: dict[str, Any]) -> dict[str, Any]:
    """Replace ``betas`` by ``beta1`` and ``beta2``."""
    flat = dict(hyperparameters)
    if "betas" in flat:
        betas = flat.pop("betas")
        if not isinstance(betas, tuple | list) or len(betas) != 2 or {"beta1", "beta2"} & flat.keys():
            raise CockpitError(f"betas is {betas!r}; give two numbers, or beta1 and beta2 instead")
        flat["beta1"], flat["beta2"] = betas
    return flat


def _packed(make: Make, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as the optimizer takes them: ``betas`` in one, and only those that it has."""
    taken, packed = _signature(make), dict(settings)
    if "betas" in taken and "beta1" not in taken and {"beta1", "beta2"} & packed.keys():
        first, second = (
            taken["betas"].default if taken["betas"].default is not inspect.Parameter.empty else (0.9, 0.999)
        )
        packed["betas"] = (packed.pop("beta1", first), packed.pop("beta2", second))
    if not _takes_all(taken):  # the rest is there to be told, and set by the function itself
        packed = {key: value for key, value in packed.items() if key in taken}
    return packed


def _takes_all(taken: dict[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())


def _check(name: str, make: Make, settings: dict[str, Any]) -> None:
    """Raise for a hyperparameter that the optimizer does not have, or a value of another kind than its default."""
    taken = _signature(make)
    examples = {key: taken[key].default for key in taken if taken[key].kind is not inspect.Parameter.VAR_KEYWORD}
    if "betas" in examples:
        betas = examples.pop("betas")
        examples |= dict(zip(("beta1", "beta2"), betas if isinstance(betas, tuple) else (0.9, 0.999), strict=True))
    for key, value in settings.items():
        if key not in examples and not _takes_all(taken):
            raise unknown(f"hyperparameter of {name}", key, examples)
        example = 0.1 if key == "lr" else examples.get(key)
        whole = key in taken and taken[key].annotation in (int, "int")
        if not _fits(value, example) or (whole and not isinstance(value, int)):
            kind = "a whole number" if whole else _kind(example)
            raise CockpitError(f"{name}: {key} is {value!r}; give {kind}. Known: {', '.join(sorted(examples))}")


def _fits(value: Any, example: Any) -> bool:
    if isinstance(example, bool):
        return isinstance(value, bool)
    if isinstance(example, int | float):
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if isinstance(example, tuple):
        return isinstance(value, tuple | list) and len(value) == len(example)
    return True


def _kind(example: Any) -> str:
    if isinstance(example, bool):
        return "true or false"
    return f"{len(example)} values" if isinstance(example, tuple) else "a finite number"
