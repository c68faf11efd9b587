"""Whose code an optimizer or a scheduler is: what shares a name with another is told from it by module and code."""

import ast
import builtins
import hashlib
import inspect
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

LETTERS = 8  # of a mark
_SAID = ("summary", "paper", "target")  # parts of a problem that training does not see
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
    return _digest("\n".join(_told(thing)))


def problem_mark(problem: Any) -> str:
    """Letters that change with the files in which the functions of a user's problem are, or with its numbers.

    As a mark: comments, documentation and layout do not count. A function without a file counts by its own code.
    """
    told = []
    for name in sorted(field.name for field in fields(problem)):
        value = getattr(problem, name)
        if callable(value):
            told += [name, *_about(value)]
        elif name not in _SAID:
            told += [name, repr(value)]
    return _digest("\n".join(told))


def _about(function: Any) -> Iterator[str]:
    """The file of a function, and what partials have bound."""
    while isinstance(function, partial):
        yield from (*map(repr, filter(_lasting, function.args)), _values(function.keywords))
        for inner in (*function.args, *function.keywords.values()):
            if callable(inner):
                yield from _about(inner)
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    file = Path(code.co_filename) if code else None
    if file is None or not file.is_file() or str(function.__module__).partition(".")[0] in ("torch", "cockpit"):
        yield f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
        yield from () if is_torchs(function) else _told(function)
    else:
        yield file_mark(file)


def file_mark(file: Path) -> str:
    """Letters that change with the code in a file, whole; comments, documentation and layout do not count."""
    return _file_mark(file, file.stat().st_mtime_ns)


@lru_cache(256)
def _file_mark(file: Path, changed: int) -> str:
    return _digest(_plain_tree(ast.parse(file.read_bytes())))


def _digest(text: str) -> str:
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
            if not (is_torchs(kind) or _is_pythons(kind)):
                functions = list(_functions(kind))
                yield _source(kind, functions) or "\n".join([*map(_compiled, functions), _values(_fixed(kind))])
                yield from map(_bound, functions)
    elif isinstance(thing, FunctionType):
        inner = inspect.unwrap(thing)
        yield _source(inner, [inner]) or _compiled(inner)
        yield from map(_bound, dict.fromkeys([thing, inner]))
    else:
        yield from _told(type(thing))
        yield _values(getattr(thing, "__dict__", {}))


def _source(thing: Any, functions: Sequence[FunctionType]) -> str:
    """Its code without what does not count; nothing where no file holds it as a whole statement.

    Code that was made from a text has no file, but a name in place of it that another text may have, too
    (``<string>``), or the file of the module in whose namespace it was run. Lines found under either are not its own.
    """
    try:
        file = inspect.getsourcefile(thing)
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        return ""
    files = {function.__code__.co_filename for function in functions}
    if file is None or file.startswith("<") or (files and not any(_one_file(file, other) for other in files)):
        return ""
    if [getattr(node, "name", None) for node in tree.body] != [thing.__name__]:  # a lambda shares its line with others
        return ""
    return _plain_tree(tree)


def _is_pythons(kind: type) -> bool:
    """Whether a class comes with Python; one made from a text may say so of itself."""
    return kind.__module__ in ("abc", "typing") or getattr(builtins, kind.__name__, None) is kind


def _one_file(one: str, other: str) -> bool:
    return os.path.abspath(one) == os.path.abspath(other)


def _plain_tree(tree: ast.AST) -> str:
    """A syntax tree as text, without its documentation, and without what is only said of a problem."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Problem"):
            node.keywords = [one for one in node.keywords if one.arg not in _SAID]
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Module) and _documented(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _documented(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Module) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def _functions(kind: type) -> Iterator[FunctionType]:
    """The functions of a class as they were written: not what wraps them, as torch does with ``step`` at first use."""
    for value in vars(kind).values():
        held: tuple[Any, ...] = (value.fget, value.fset, value.fdel) if isinstance(value, property) else (value,)
        for one in held:
            inner = inspect.unwrap(one.__func__ if isinstance(one, staticmethod | classmethod) else one)
            if isinstance(inner, FunctionType):
                yield inner


def _fixed(kind: type) -> dict[str, Any]:
    """The values that a class has of itself."""
    return {name: value for name, value in vars(kind).items() if not (name.startswith("__") and name.endswith("__"))}


def _compiled(function: FunctionType) -> str:
    """The same for code that no file holds, from an interactive session say."""

    def parts(code: CodeType) -> str:
        inner = [parts(one) for one in code.co_consts if isinstance(one, CodeType)]
        consts = [one for one in code.co_consts if not isinstance(one, CodeType)]
        fixed = [sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one) for one in consts]  # sets vary
        taken = (code.co_varnames, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        return f"{code.co_code.hex()} {code.co_names} {taken} {fixed} {inner}"

    defaults = dict(enumerate(function.__defaults__ or ())) | (function.__kwdefaults__ or {})
    return f"{parts(function.__code__)} {_values(defaults)}"


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
    return repr({name: value for name, value in known.items() if _lasting(value)})


def _lasting(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_lasting, value))
    if isinstance(value, dict):
        return all(_lasting(key) and _lasting(inner) for key, inner in value.items())
    return isinstance(value, _PLAIN)
