"""Which optimizer, with which hyperparameters: by a name of torch or of the benchmark, a class, or an import path."""

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.optim import Optimizer

from cockpit.bench import imports, origin
from cockpit.core.errors import CockpitError, unknown

Make = Callable[..., Optimizer]

# Names that torch does not have, and what they are in torch.
OWN: dict[str, Make] = {
    "Momentum": torch.optim.SGD,
    "NAG": partial(torch.optim.SGD, nesterov=True),
    "AMSGrad": partial(torch.optim.Adam, amsgrad=True),
}
NAMELESS = "<lambda>"
_MOMENTS = {"beta1": 0.9, "beta2": 0.999}
# Defaults of the published benchmark (Schmidt, Schneider and Hennig 2021, "Descending through a Crowded Valley"),
# where torch has the optimizer; everything else has torch's. Torch keeps its own form of each rule: its
# RMSprop starts at 0 (TensorFlow's at 1) and adds eps outside the root.
PUBLISHED: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 1e-2},
    "Momentum": {"lr": 1e-2, "momentum": 0.99},
    "NAG": {"lr": 1e-2, "momentum": 0.99},
    "Adam": {"lr": 1e-3, **_MOMENTS, "eps": 1e-8},
    "AMSGrad": {"lr": 1e-2, **_MOMENTS, "eps": 1e-8},
    "NAdam": {"lr": 1e-3, **_MOMENTS, "eps": 1e-7},
    "RAdam": {"lr": 1e-3, **_MOMENTS, "eps": 1e-7},
    "Adagrad": {"lr": 1e-2, "initial_accumulator_value": 0.1, "eps": 1e-7},
    "Adadelta": {"lr": 1e-3, "rho": 0.95, "eps": 1e-8},
    "RMSprop": {"lr": 1e-3, "alpha": 0.9, "eps": 1e-10},
}


def named() -> dict[str, Make]:
    """Every optimizer that is known by name: torch's and the benchmark's own."""
    torchs = {name: kind for name, kind in vars(torch.optim).items() if _is_optimizer(kind) and kind is not Optimizer}
    return torchs | OWN


@dataclass(frozen=True, slots=True)
class Choice:
    """An optimizer and its hyperparameters; those that are not listed have the optimizer's own defaults."""

    name: str
    hyperparameters: dict[str, Any]  # flat: beta1 and beta2, not betas; always with "lr"
    make: Make
    code: str | None = None  # a mark of the optimizer's code, where that is not torch's

    def build(self, parameters: Iterable[Any]) -> Optimizer:
        """Make the optimizer of these parameters (or groups of them)."""
        try:
            made = self.make(parameters, **_packed(self.make, self.hyperparameters))
        except (TypeError, ValueError) as error:
            raise CockpitError(f"{self.name} with {self.hyperparameters} cannot be made: {error}") from error
        if not (hasattr(made, "step") and hasattr(made, "param_groups")):
            raise CockpitError(f"{self.name} makes {made!r}; return a torch.optim.Optimizer")
        return made

    @property
    def needs_closure(self) -> bool:
        """Whether ``step`` must be given a function that computes the loss again, as LBFGS's must."""
        step = getattr(unwrapped(self.make), "step", None)
        closure = inspect.signature(step).parameters.get("closure") if step else None
        return closure is not None and closure.default is closure.empty


def choose(optimizer: str | Make, **hyperparameters: Any) -> Choice:
    """Choose an optimizer by name, class or function: ``choose("Adam", lr=1e-3)``, ``choose(MyOptimizer, lr=0.1)``.

    A name of torch or of the benchmark counts in any case of letters; ``"package.module:Class"`` is imported.
    ``beta1`` and ``beta2`` may stand for ``betas``. What is not given has the benchmark's published default where the
    choice is by name, or else the optimizer's own. A ``functools.partial`` adds what it binds; a lambda, which has no
    name, is called after the optimizer that it makes. What is not torch's is called by its module, too, and its code
    is marked: two that share a name are never taken for one.
    """
    name, make = _found(optimizer)
    settings = _defaults(name, make, optimizer) | _flat(_bound(optimizer)) | _flat(hyperparameters)
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
    defaults = {key: taken.default for key, taken in _signature(type(built)).items()}
    own = {key: value for key, value in built.defaults.items() if key in defaults and value != defaults[key]}
    known = _flat(own) | choice.hyperparameters
    return Choice(origin.named(type(built)), known, choice.make, origin.mark(type(built)))


def _is_optimizer(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Optimizer)


def _is_torchs(make: Make) -> bool:
    return unwrapped(make) in vars(torch.optim).values()


def _found(optimizer: str | Make) -> tuple[str, Make]:
    """Return the name and the class (or function) that is meant."""
    if not isinstance(optimizer, str):
        if not callable(optimizer):
            raise CockpitError(
                f"optimizer is {optimizer!r}; give a name, an optimizer class, or a function that makes one"
            )
        return _called(optimizer), optimizer
    if ":" in optimizer:
        return _imported(optimizer)
    known = {name.lower(): (name, make) for name, make in named().items()}
    if optimizer.lower() not in known:
        raise unknown("optimizer", optimizer, [*named(), "package.module:Class"])
    return known[optimizer.lower()]


def _imported(path: str) -> tuple[str, Make]:
    make = imports.thing(path, "optimizer")
    if not callable(make):
        raise CockpitError(f"optimizer {path!r} is {make!r}; give a class or a function that makes an optimizer")
    return _called(make), make


def _called(make: Make) -> str:
    inner = unwrapped(make)
    return NAMELESS if getattr(inner, "__name__", None) == NAMELESS else origin.named(inner)


def _signature(make: Make) -> dict[str, inspect.Parameter]:
    """Return what an optimizer takes besides the parameters, which come first."""
    try:
        parameters = list(inspect.signature(make).parameters.values())[1:]
    except (TypeError, ValueError):  # some built-in callables do not tell
        return {"hyperparameters": inspect.Parameter("hyperparameters", inspect.Parameter.VAR_KEYWORD)}
    return {parameter.name: parameter for parameter in parameters}


def _defaults(name: str, make: Make, optimizer: str | Make) -> dict[str, Any]:
    """Return the published defaults of a name; else the rate that the optimizer has by itself."""
    if isinstance(optimizer, str) and ":" not in optimizer and name in PUBLISHED:
        return dict(PUBLISHED[name])
    lr = _signature(make).get("lr")
    if lr is None:
        return {}
    return {} if lr.default is lr.empty else {"lr": lr.default}


def _flat(hyperparameters: dict[str, Any]) -> dict[str, Any]:
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
