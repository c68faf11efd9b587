"""Modules of the user: looked for beside the study file, too, and marked by the syntax of their file."""

import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from cockpit.bench import origin

TORCHS = "torch"  # instead of a mark


@contextmanager
def their_words() -> Iterator[None]:
    """What a user's code prints goes to stderr: stdout is for answers."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def places(folders: Iterable[str]) -> Iterator[None]:
    """Look for modules in these folders, too, after all other places."""
    before = list(sys.path)
    sys.path.extend(folder for folder in folders if folder not in before)
    try:
        yield
    finally:
        sys.path[:] = before


def mark(thing: Any) -> str:
    """Letters that change with the whole file that a class or function comes from; comments do not count."""
    if origin.is_torchs(thing):
        return TORCHS
    try:
        file = inspect.getsourcefile(thing)
        return origin.file_mark(Path(file or ""))
    except (TypeError, OSError, SyntaxError, ValueError):  # made in an interactive session, or compiled
        return str(origin.mark(thing))
