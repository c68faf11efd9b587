"""Modules of the user: looked for beside the study file, too, and marked by the syntax of their file."""

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from cockpit.bench import origin
from cockpit.core.errors import CockpitError

TORCHS = "torch"  # instead of a mark


@contextmanager
def places(folders: Iterable[str]) -> Iterator[None]:
    """Look for modules in these folders, too, after all other places."""
    before = list(sys.path)
    sys.path.extend(folder for folder in folders if folder not in before)
    try:
        yield
    finally:
        sys.path[:] = before


def imported(path: str) -> Any:
    """What ``"package.module:name"`` names."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # a module may raise anything while it is imported
        raise CockpitError(f"{path!r} cannot be imported: {type(error).__name__}: {error}") from error


def mark(thing: Any) -> str:
    """Letters that change with the syntax of the file that a thing comes from; comments and layout do not count."""
    if origin.is_torchs(thing):
        return TORCHS
    try:
        file = inspect.getsourcefile(thing)
    except TypeError:
        file = None
    found = _file_mark(file, Path(file).stat().st_mtime_ns) if file and Path(file).is_file() else None
    return found or str(origin.mark(thing))


@lru_cache(64)
def _file_mark(file: str, changed: int) -> str | None:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode("utf-8", "backslashreplace")).hexdigest()[: origin.LETTERS]
