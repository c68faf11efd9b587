"""Things of a user's own by import path, ``package.module:thing``, and problems by name or by such a path."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from cockpit import problems
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Problem


def thing(path: str, kind: str, beside: Path | None = None) -> Any:
    """What ``package.module:thing`` names; the module is also looked for beside a file and in the working directory.

    Args:
        path: A module, a colon, and a name in it (``Class``, or ``Class.inner``).
        kind: What it is to be, for the message if it cannot be imported.
        beside: The folder that is looked into before the working directory.
    """
    module, _, name = path.partition(":")
    try:
        with _looking_in(*([] if beside is None else [str(beside)]), os.getcwd()):
            found = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module of a user may raise anything
        said = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        raise CockpitError(f"{kind} {path!r} cannot be imported: {said}; give it as package.module:name") from error
    return found


def problem(name: str | Problem, beside: Path | None = None) -> Problem:
    """A problem by its name, or by an import path where it is a user's own."""
    if not isinstance(name, str):
        found: Any = name
    elif ":" in name:
        found = thing(name, "problem", beside)
    else:
        found = problems.get(name)
    if not isinstance(found, Problem):
        said = f"{name} is" if isinstance(name, str) else "problem is"
        raise CockpitError(f"{said} {found!r}; give a cockpit.problems.Problem, or a name of `cockpit bench list`")
    return found


@contextmanager
def _looking_in(*folders: str) -> Iterator[None]:
    """Look for modules in these folders, too, after all other places."""
    before = list(sys.path)
    sys.path.extend(folders)
    try:
        yield
    finally:
        sys.path[:] = before
