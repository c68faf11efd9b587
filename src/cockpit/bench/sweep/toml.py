"""A TOML file that knows on which line everything stands."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.words import told

Keys = tuple[str, ...]


class Toml:
    """The contents of a file, and errors that say where in it something is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CockpitError(f"{path} cannot be read: {reason}; give a study file (--example prints one)") from error
        try:
            self.data: dict[str, Any] = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise CockpitError(_placed(path, str(error), self._text)) from error
        self._lines = dict(_statements(self._text))

    def wrong(self, keys: Keys, message: str, value: Any = None) -> CockpitError:
        """The error for what stands at some keys; ``value``: an entry of a list there."""
        label = ".".join(key if re.fullmatch(r"[\w-]+", key) else f'"{key}"' for key in keys)
        return CockpitError(f"{self.path}:{self._line(keys, value)}: {label}: {message}")

    def unknown(self, keys: Keys, value: Any, known: Iterable[str], more: str = "") -> CockpitError:
        """The error for a word that is none of the known ones."""
        return self.wrong(keys, told(value, known, more), value)

    def _line(self, keys: Keys, value: Any) -> int:
        known = dict(self._lines)
        for stated, place in self._lines.items():  # a table of tables is where the first of them begins
            for length in range(1, len(stated)):
                known.setdefault(stated[:length], place)
        while keys and keys not in known:
            keys = keys[:-1]
        first, last = known.get(keys, (1, 1))
        if value is not None:
            text = re.escape(value if isinstance(value, str) else f"{value}")
            pattern = rf"""["']{text}["']""" if isinstance(value, str) else rf"(?<![\w.]){text}(?![\w.])"
            for number, line in enumerate(self._text.splitlines()[first - 1 : last], first):
                if re.search(pattern, line):
                    return number
        return first


def _placed(path: Path, message: str, text: str) -> str:
    """A parser's message with its line in front."""
    found = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    line = int(found[1]) if found else len(text.splitlines()) or 1
    said = message[: found.start()] if found else message.removesuffix(" (at end of document)")
    return f"{path}:{line}: not TOML: {said[:1].lower()}{said[1:]}"


def _statements(text: str) -> Iterator[tuple[Keys, tuple[int, int]]]:
    """Keys, and the first and the last line of what is said of them."""
    table: Keys = ()
    begin, chunk = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not chunk and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begin, chunk = (begin, f"{chunk}\n{line}") if chunk else (number, line)
        try:
            parsed = tomllib.loads(chunk)
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        chunk = ""
        if line.lstrip().startswith("[") and begin == number:
            table = _deepest(parsed)
            yield table, (number, number)
        else:
            yield from ((table + keys, (begin, number)) for keys in _paths(parsed))


def _deepest(parsed: Any) -> Keys:
    keys: Keys = ()
    while isinstance(parsed, dict | list) and parsed:
        if isinstance(parsed, dict):
            key = next(iter(parsed))
            keys, parsed = (*keys, key), parsed[key]
        else:
            parsed = parsed[0]
    return keys


def _paths(parsed: dict[str, Any]) -> Iterator[Keys]:
    for key, value in parsed.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *rest) for rest in _paths(value))
