"""What a user names by an import path, ``package.module:Name``."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from cockpit import problems
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Problem


def load(what: str, path: str, beside: Sequence[Path] = ()) -> Any:
    """Import a thing by its path; modules are also looked for in some folders, then in the working directory."""
    module, _, name = path.partition(":")
    hint = "give it as package.module:Name"
    try:
        with _also(beside):
            found = import_module(module)
    except ModuleNotFoundError as error:
        own = error.name is not None and not f"{module}.".startswith(f"{error.name}.")
        raise CockpitError(
            f"{what} {path!r} cannot be imported: {error}; {f'{module} needs it, install it' if own else hint}"
        ) from error
    except (Exception, SystemExit) as error:  # what the user's own module raises
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        remedy = f"mend {module}" if module else hint
        raise CockpitError(f"{what} {path!r} cannot be imported: {said}; {remedy}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            where = getattr(found, "__file__", None)
            lies = f" ({where})" if where else ""
            raise CockpitError(f"{what} {path!r} cannot be imported: {module}{lies} has no {name!r}; {hint}")
        found = getattr(found, part)
    return found


def problem(name: str | Problem, beside: Sequence[Path] = ()) -> Problem:
    """A problem by its name, or by an import path where it is a user's own."""
    if not isinstance(name, str):
        found: Any = name
    else:
        found = load("problem", name, beside) if ":" in name else problems.get(name)
    if not isinstance(found, Problem):
        said = f"{name} is" if isinstance(name, str) else "problem is"
        raise CockpitError(f"{said} {found!r}; give a cockpit.problems.Problem, or a name of `cockpit bench list`")
    return found


@contextmanager
def _also(folders: Sequence[Path]) -> Iterator[None]:
    """Look for modules in these folders and the working directory, too, after all other places."""
    before = list(sys.path)
    sys.path += [*(str(folder) for folder in folders), os.getcwd()]
    try:
        yield
    finally:
        sys.path[:] = before
