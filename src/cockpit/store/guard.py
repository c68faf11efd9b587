"""Whatever goes wrong while a run is read is said about this run; readers raise nothing but :class:`CockpitError`."""

from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from cockpit.core.errors import CockpitError


class Placed(Protocol):
    """Something that lies in a folder."""

    path: Path


Given = ParamSpec("Given")
Result = TypeVar("Result")
One = TypeVar("One", bound=Placed)


def refusing(
    method: Callable[Concatenate[One, Given], Result],
) -> Callable[Concatenate[One, Given], Result]:
    """Turn any error of a method into one that names the run and the cause."""

    @wraps(method)
    def guarded(self: One, /, *args: Given.args, **extra: Given.kwargs) -> Result:
        try:
            return method(self, *args, **extra)
        except Exception as error:
            raise said(self.path, error) from error

    return guarded


def refusing_each(method: Callable[[One], Iterator[Any]]) -> Callable[[One], Iterator[Any]]:
    """The same for what a generator gives."""

    @wraps(method)
    def guarded(self: One) -> Iterator[Any]:
        try:
            yield from method(self)
        except Exception as error:
            raise said(self.path, error) from error

    return guarded


def said(path: Path, error: Exception) -> CockpitError:
    """The error as it is if it is ours, else what it is called and where it arose."""
    if isinstance(error, CockpitError):
        return error
    return CockpitError(f"{path} cannot be read: {type(error).__name__}: {error}".rstrip(": "))
