"""Whose code an optimizer or a scheduler is: what shares a name with another is told from it by module and code."""

import ast
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

LETTERS = 8  # of a mark
_PLAIN = (int, float, str, bytes, bool, type(None))


def is_torchs(thing: Any) -> bool:
    """Whether a class or function comes with torch."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "torch"


def named(thing: Any) -> str:
    """A class or function of torch by its name; any other with its module: ``"package.module.Mine"``."""
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    name = str(kind.__qualname__).replace("<locals>.", "")
    return name if is_torchs(kind) else f"{_module(kind)}.{name}"


def mark(thing: Any) -> str | None:
    """Letters that change with the code of a class (its own bases included) or function; None for torch's.

    Comments, documentation and layout do not count; neither does what the code calls.
    """
    if is_torchs(thing):
        return None
    text = "\n".join(_told(thing))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:LETTERS]


def _module(kind: Any) -> str:
    """The module, by the name that it is imported with also where it is run as a script."""
    module = str(kind.__module__)
    main = sys.modules.get("__main__")
    if module != "__main__" or main is None:
        return module
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else module


def _told(thing: Any) -> Iterator[str]:
    """What a mark is made of."""
    if isinstance(thing, type):
        for kind in thing.__mro__:
            if not is_torchs(kind) and kind.__module__ not in ("builtins", "abc", "typing"):
                yield _source(kind) or "\n".join(map(_compiled, _functions(kind)))
                yield from map(_bound, _functions(kind))
    elif isinstance(thing, FunctionType):
        yield _source(thing) or _compiled(thing)
        yield _bound(thing)
    else:
        yield from _told(type(thing))
        yield _values(getattr(thing, "__dict__", {}))


def _source(thing: Any) -> str:
    """Its code without what does not count; nothing where there is no file to read, or no whole statement in it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _functions(kind: type) -> list[FunctionType]:
    return [value for value in vars(kind).values() if isinstance(value, FunctionType)]


def _compiled(function: FunctionType) -> str:
    """The same for code that no file holds, from an interactive session say."""

    def parts(code: CodeType) -> str:
        inner = [parts(one) for one in code.co_consts if isinstance(one, CodeType)]
        consts = [one for one in code.co_consts if not isinstance(one, CodeType)]
        fixed = [sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one) for one in consts]  # sets vary
        return f"{code.co_code.hex()} {code.co_names} {fixed} {inner}"

    return f"{parts(function.__code__)} {_values(dict(enumerate(function.__defaults__ or ())))}"


def _bound(function: FunctionType) -> str:
    """The values that a function has taken from where it was made."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return _values({name: _content(cell) for name, cell in cells})


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return object


def _values(known: dict[Any, Any]) -> str:
    """Those that read the same in every process."""
    return repr({name: value for name, value in known.items() if isinstance(value, _PLAIN)})
