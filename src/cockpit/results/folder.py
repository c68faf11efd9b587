"""Results in a folder: one ``result.json`` each, or all of a sweep; what DeepOBS wrote is recognised too."""

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, fields, replace
from functools import lru_cache
from os import walk
from pathlib import Path
from typing import Any

from cockpit.core import reading
from cockpit.core.errors import CockpitError
from cockpit.core.plain import plain
from cockpit.core.writing import refusing, whole
from cockpit.results import deepobs
from cockpit.results.result import METRICS, Result
from cockpit.results.sweeps import store as sweeps
from cockpit.results.sweeps.results import results as swept

NAME = "result.json"
FORMAT = 1  # of the file
LARGEST = 256 << 20  # bytes

_TEXTS = ("problem", "optimizer", "schedule", "source")
_OPTIONAL = ("code", "problem_code")  # texts that may be absent
_RENAMED = {"augmented_eval": "shuffled_eval"}  # parts of a variant that older files name otherwise
_KEPT = 100_000  # files that are remembered
_SWEEPS = 4  # sweeps that are


class Found(list[Result]):
    """Results, and what could not be read."""

    def __init__(self, results: Iterable[Result] = (), problems: Iterable[str] = ()) -> None:
        super().__init__(results)
        self.problems = list(problems)  #: one sentence for each file that was left out


def write(result: Result, path: Path | str) -> Path:
    """Write a result as strict JSON, whole or not at all; a path without ``.json`` is its folder."""
    file = _file(Path(path))
    text = json.dumps({"format": FORMAT, **plain(asdict(result), lambda odd: None)}, allow_nan=False)
    with refusing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole(file) as part:
            part.write_text(text, encoding="utf-8")
    return file


def read(path: Path | str) -> Result:
    """Read one result: a file of ours or of DeepOBS, or the folder that holds our file."""
    file = _file(Path(path))
    try:
        data = reading.parsed(reading.content(file, LARGEST), LARGEST, most=None)
    except reading.Refused as error:
        raise CockpitError(f"{file} cannot be read: {error}; the run may have to be repeated") from error
    except OSError as error:
        raise CockpitError(f"{file} cannot be read: {error.strerror or error}; give the folder of a result") from error
    if not isinstance(data, dict):
        raise CockpitError(f"{file} holds a {type(data).__name__}, not a result")
    try:
        return deepobs.result(data, file) if deepobs.is_result(data) else _result(data, file)
    except CockpitError:
        raise
    except Exception as error:  # an entry of a kind that nobody thought of
        raise CockpitError(f"{file} is no result: {type(error).__name__}: {error}") from error


def find(folder: Path | str, batch_losses: bool = False) -> Found:
    """All results below a folder, in the order of their paths; files that have not changed are not read again.

    Args:
        folder: A folder, or one file.
        batch_losses: Whether to keep the losses of mini-batches, which are many.
    """
    folder = Path(folder)
    if not folder.exists():
        raise CockpitError(f"{folder} does not exist; give a folder with results")
    found = Found()
    for file in [folder] if folder.is_file() else _files(folder):
        try:
            state = file.stat()
            if file.name == sweeps.NAME:
                found += _swept(file, state.st_mtime_ns, state.st_size)
            else:
                found.append(_load(file, state.st_mtime_ns, state.st_size, batch_losses))
        except (CockpitError, OSError) as error:
            found.problems.append(str(error))
    return found


def holds(folder: Path | str) -> bool:
    """Whether a result lies below a folder; nothing is read."""
    return next(_each(Path(folder)), None) is not None


def mark(folder: Path | str) -> int:
    """A number that changes when a result below a folder is added, changed or removed; nothing is read."""
    return hash(frozenset(_states(Path(folder))))


def _states(folder: Path) -> Iterator[tuple[str, int, int]]:
    for file in _each(folder):
        with suppress(OSError):  # gone in this moment
            state = file.stat()
            yield str(file), state.st_mtime_ns, state.st_size


def _file(path: Path) -> Path:
    return path if path.suffix == ".json" else path / NAME


def _files(folder: Path) -> list[Path]:
    return sorted(_each(folder))


def _each(folder: Path) -> Iterator[Path]:
    for at, folders, names in walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found = [name for name in names if name in (NAME, sweeps.NAME) or deepobs.is_file(Path(name))] if names else []
        yield from (Path(at) / name for name in found)


@lru_cache(_KEPT)
def _load(file: Path, changed: int, size: int, batch_losses: bool) -> Result:
    """Read a file in the state that its time and size tell."""
    result = read(file)
    return result if batch_losses else replace(result, batch_losses=[])


@lru_cache(_SWEEPS)
def _swept(file: Path, changed: int, size: int) -> tuple[Result, ...]:
    """All runs of a sweep, in the state that the time and size of its file tell."""
    return tuple(swept(file.parent))


def _result(data: dict[str, Any], file: Path) -> Result:
    if data.get("format") != FORMAT:
        raise CockpitError(
            f"{file} has format {data.get('format')!r}, not {FORMAT}; it is no result, or of a newer version"
        )
    known = {field.name for field in fields(Result)}
    given = {name: value for name, value in data.items() if name in known}
    try:
        given["curves"] = {str(metric): numbers(values) for metric, values in given["curves"].items()}
        given |= {name: numbers(given.get(name, ())) for name in ("batch_losses", "seconds")}
        given |= {name: int(given[name]) for name in ("seed", "batch_size", "epochs")}
        given |= {name: dict(given.get(name, {})) for name in ("hyperparameters", "variant")}
        given["variant"] = {_RENAMED.get(name, name): value for name, value in given["variant"].items()}
        given |= {name: None if given.get(name) is None else int(given[name]) for name in ("diverged", "rule")}
        given["target"] = None if given.get("target") is None else float(given["target"])
        if odd := [name for name in _TEXTS if not isinstance(given.get(name, ""), str)]:
            raise TypeError(f"{odd[0]} is {given[odd[0]]!r}, not a text")
        if odd := [name for name in _OPTIONAL if not isinstance(given.get(name), str | None)]:
            raise TypeError(f"{odd[0]} is {given[odd[0]]!r}, neither a text nor nothing")
        result = Result(**given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CockpitError(f"{file} lacks what a result has: {type(error).__name__} {error}") from error
    if odd := [metric for metric in result.curves if metric not in METRICS]:
        raise CockpitError(f"{file} has a curve {odd[0]!r}; known: {', '.join(METRICS)}")
    return result


def numbers(values: Iterable[float | None]) -> list[float]:
    """Numbers as floats; null, which strict JSON has for them, is NaN."""
    return [math.nan if value is None else float(value) for value in values]
