"""Test problems for optimizers: each is a value in a file, and both have its name."""

from functools import cache
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
    """Load the classes that a problem is made of, on first use."""
    if name in ("Batches", "Place", "Problem", "Splits", "Variant"):
        return getattr(import_module(f"{__name__}._base"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def names() -> tuple[str, ...]:
    """Return the names of all problems, sorted."""
    files = (module.name for module in iter_modules(__path__) if not module.ispkg)
    return tuple(sorted(name for name in files if not name.startswith("_")))


def get(name: str) -> "Problem":
    """Return the problem of this name."""
    if name not in names():
        raise unknown("problem", name, names())
    problem: Problem = getattr(import_module(f"{__name__}.{name}"), name)
    return problem


def group(name: str) -> tuple[str, ...]:
    """Return the problems of a group: ``"small"`` and ``"large"`` (as published), ``"modern"``, ``"all"``."""
    groups = {"small": SMALL, "large": LARGE, "modern": MODERN, "all": names()}
    if name not in groups:
        raise unknown("group of problems", name, groups)
    return groups[name]


def adapt(problem: "Problem", variant: "Variant") -> "Problem":
    """Return the problem as a variant asks; its data read the variant themselves."""
    if problem.name != "quadratic_deep" or variant.hessian == 0:
        return problem
    from cockpit.problems.quadratic_deep import with_hessian

    return with_hessian(variant.hessian, problem)
