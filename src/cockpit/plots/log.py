"""The paper's JSON log, ``{step: {quantity: value}}``: found, read, and turned into records."""

from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from cockpit.core import reading
from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record

Steps = dict[int, dict[str, Any]]

RUN_FILE = "output.json"  # what a watched run leaves in its folder
LARGEST = 1 << 30  # bytes of a log
ALL = "all parameters"  # the one part of a histogram that was logged in total only
UNSAID = "the log does not say why"
NOT_FINITE = ("nan", "inf", "-inf")  # JSON has no such numbers; logs write them as text
LOGGED = frozenset(  # columns of Cockpit.log: None says that a number was not given
    ["epoch_count", "learning_rate"]
    + [f"{split}_{what}" for split in ("train", "valid", "test") for what in ("loss", "accuracy")]
)


def candidates(source: str | Path) -> list[Path]:
    """The files that may be meant: ``source`` with or without ``.json``, or the log in a run folder."""
    given = Path(source)
    return [given] if given.suffix == ".json" else [Path(f"{source}.json"), given / RUN_FILE, given]


def locate(source: str | Path) -> Path | None:
    """The log's file, if there is one."""
    return next((path for path in candidates(source) if path.is_file()), None)


def parse(path: Path) -> Steps:
    """Read a file."""
    try:
        data = reading.parsed(reading.content(path, LARGEST), LARGEST, most=None)
    except reading.Refused as error:
        raise CockpitError(f"{path} is not a log: {error}; give a file made by Cockpit.write") from None
    except OSError as error:
        raise CockpitError(f"{path} cannot be read: {error.strerror}; check its permissions") from None
    return steps(data, str(path))


def steps(data: Any, where: str) -> Steps:
    """Check the form of a log, and put its steps in order."""
    if not isinstance(data, Mapping):
        raise CockpitError(f"{where} is not a log: it holds {type(data).__name__}, not {{step: {{quantity: value}}}}")
    found: Steps = {}
    for key, values in data.items():
        if not isinstance(values, Mapping):
            raise CockpitError(f"{where} is not a log: entry {key!r} holds {type(values).__name__}, not quantities")
        try:
            found[int(key)] = dict(values)
        except (TypeError, ValueError):
            raise CockpitError(f"{where} is not a log: its key {key!r} is not the number of a step") from None
    return dict(sorted(found.items()))


def records(log: Steps) -> Iterator[Record]:
    """Turn a log into records; a value that its quantity's other values do not fit is undefined."""
    kinds: dict[str, Kind] = {}
    for values in log.values():
        for name, value in values.items():
            kind = _kind(value)
            if kind is not None:
                kinds.setdefault(name, kind)
    for step, values in log.items():
        for name, value in values.items():
            if value is not None or name not in LOGGED:
                kind = kinds.get(name, Kind.SCALAR)
                try:
                    yield _record(step, name, kind, value)
                except (ValueError, TypeError, OverflowError, LookupError) as error:
                    yield Record(step, name, kind, None, f"the log's value cannot be read: {error}")


def _kind(value: Any) -> Kind | None:
    if isinstance(value, Histogram) or (isinstance(value, Mapping) and {"hist", "edges"} <= value.keys()):
        return Kind.HISTOGRAM
    if isinstance(value, Mapping | list | tuple | np.ndarray):
        return Kind.PER_PARAMETER
    return None if _number(value) is None else Kind.SCALAR


def _record(step: int, name: str, kind: Kind, value: Any) -> Record:
    if value is None:
        return Record(step, name, kind, None, UNSAID)
    if _kind(value) is not kind:
        return Record(step, name, kind, None, f"the log holds {type(value).__name__} here, not a {kind.value} value")
    if kind is Kind.HISTOGRAM:
        counted = _histogram(value)
        return Record(step, name, kind, counted, None if counted else "the log's edges do not fit its counts")
    if kind is Kind.PER_PARAMETER:
        return Record(step, name, kind, {key: _part(part) for key, part in _named(value)})
    return Record(step, name, kind, _number(value))


def _named(value: Any) -> Iterable[tuple[str, Any]]:
    """The paper's tool knows no names: parameters are numbered."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return ((str(key), part) for key, part in pairs)


def _part(part: Any) -> Any:
    """A number, a summary as it is, or the norm of a parameter's raw values."""
    if isinstance(part, list | np.ndarray):
        return {"norm": float(np.linalg.norm(np.asarray(part, dtype=float)))}
    if isinstance(part, Mapping):
        return {key: entry if (number := _number(entry)) is None else number for key, entry in part.items()}
    number = _number(part)
    return float("nan") if number is None else number


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return float(value) if value in NOT_FINITE else None
    return float(value) if isinstance(value, Real) else None


def _histogram(value: Any) -> Histogram | None:
    if isinstance(value, Histogram):
        return value
    counts, edges = np.asarray(value["hist"]), value["edges"]
    axes = tuple(np.asarray(axis, dtype=float) for axis in ([edges] if counts.ndim == 1 else edges))
    if counts.shape != tuple(len(axis) - 1 for axis in axes):
        return None
    return Histogram(axes, {ALL: counts.astype(np.int64)})
