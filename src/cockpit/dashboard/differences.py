"""What differs between runs: settings that are not the same, and how far each one came."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cockpit.core.best import best, falls
from cockpit.core.finite import broken
from cockpit.core.source import Series, Source
from cockpit.panels import View
from cockpit.panels.metrics import logged
from cockpit.panels.runs import Runs

# Never the same, or shown elsewhere.
SAME = frozenset({"name", "started", "pid", "cost", "coverage", "attempts", "lost"})
LONGEST = 200  # characters of a value

Row = dict[str, Any]


def differences(runs: Sequence[Source]) -> list[Row]:
    """Rows of a table with one value for each run: results first, then the settings that differ."""
    found = [dict(flat(_settings(run.metadata))) for run in runs]
    keys = dict.fromkeys(key for one in found for key in one)
    rows = [{"key": key, "values": [one.get(key) for one in found]} for key in keys]
    return [*_results(runs), *(row for row in rows if len(set(map(str, row["values"]))) > 1)]


def spoken(value: float | None) -> float | str | None:
    """A number that is not finite as a word: JSON has none for it, and it must not look like no number."""
    if value is None or np.isfinite(value):
        return value
    return "NaN" if np.isnan(value) else "inf" if value > 0 else "-inf"


def _results(runs: Sequence[Source]) -> list[Row]:
    whole = [run.scalar("Loss") for run in runs]
    series = [one.defined() for one in whole]
    found: dict[str, list[Any]] = {
        "last loss": [spoken(float(one.values[-1])) if len(one) else None for one in whole],
        "lowest loss": [float(one.values.min()) if len(one) else None for one in series],
        "at step": [int(one.steps[np.argmin(one.values)]) if len(one) else None for one in series],
    }
    ends = [broken(run) for run in runs]
    if any(ends):
        found["not finite since step"] = [end.broken if end is not None else None for end in ends]
    for name in logged(Runs(runs, View())):
        found |= _metric(name, [run.scalar(name) for run in runs])
    return [{"key": key, "values": values} for key, values in found.items()]


def _metric(name: str, series: Sequence[Series]) -> dict[str, list[Any]]:
    """Last and best of something the user logged."""
    tops = [best(name, one) for one in series]
    return {
        f"last {name}": [spoken(float(one.values[-1])) if len(one) else None for one in series],
        f"{'lowest' if falls(name) else 'highest'} {name}": [None if top is None else top[1] for top in tops],
    }


def _settings(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key not in SAME}
    if isinstance(kept.get("model"), Mapping):
        kept["model"] = {key: value for key, value in kept["model"].items() if key != "layers"}
    if isinstance(kept.get("quantities"), list):
        kept["quantities"] = ", ".join(str(one.get("name")) for one in kept["quantities"] if isinstance(one, Mapping))
    return kept


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Name each leaf by the way to it; a list of one needs no number."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from flat(part, f"{path} {key}".strip())
    elif isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
        for place, part in enumerate(value):
            yield from flat(part, path if len(value) == 1 else f"{path} {place}")
    else:
        plain = value is None or isinstance(value, bool | int | float)
        yield path, value if plain else str(value)[:LONGEST]
