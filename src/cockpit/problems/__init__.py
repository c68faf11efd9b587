"""Things to optimise, one file per problem; a problem is added by a file of its name that holds a value of its name."""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from cockpit.core.errors import unknown

if TYPE_CHECKING:  # names and groups are known without torch
    from cockpit.problems._base import Batches, Place, Problem, Splits, Variant

__all__ = ["Batches", "Place", "Problem", "Splits", "Variant", "adapt", "get", "group", "names"]

SMALL = ("quadratic_deep", "mnist_vae", "fmnist_2c2d", "cifar10_3c3d")
LARGE = ("fmnist_vae", "cifar100_allcnnc", "svhn_wrn164", "tolstoi_char_rnn")
MODERN = ("tolstoi_gpt", "cifar10_resnet18", "covertype_mlp")


def __getattr__(name: str) -> Any:
    """What a problem of one's own is made of: loaded when it is asked for."""
    if name in ("Batches", "Place", "Problem", "Splits", "Variant"):
        return getattr(import_module(f"{__name__}._base"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def names() -> tuple[str, ...]:
    """All problems, in alphabetical order."""
    files = (module.name for module in iter_modules(__path__) if not module.ispkg)
    return tuple(sorted(name for name in files if not name.startswith("_")))


def get(name: str) -> "Problem":
    """The problem of that name."""
    if name not in names():
        raise unknown("problem", name, names())
    problem: Problem = getattr(import_module(f"{__name__}.{name}"), name)
    return problem


def group(name: str) -> tuple[str, ...]:
    """The problems of ``"small"``, ``"large"`` (of the published benchmark), ``"modern"`` (beside it) or ``"all"``."""
    groups = {"small": SMALL, "large": LARGE, "modern": MODERN, "all": names()}
    if name not in groups:
        raise unknown("group of problems", name, groups)
    return groups[name]


def adapt(problem: "Problem", variant: "Variant") -> "Problem":
    """The problem as a variant has it; what a variant says of data is left to them."""
    if problem.name != "quadratic_deep" or variant.hessian == 0:
        return problem
    from cockpit.problems.quadratic_deep import with_hessian

    return with_hessian(variant.hessian, problem)
