"""A run as columns, ready for a data frame."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cockpit.core.errors import unknown
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.source import Source

Table = dict[str, NDArray[Any]]
STEP = "step"


class Recording(Source, Protocol):
    """A source that also gives its records one by one."""

    def records(self) -> Iterator[Record]:
        """All records."""


def headings(names: Iterable[str], what: str, taken: Iterable[str] = (STEP,)) -> list[str]:
    """Headings of columns for these names; one that is taken, as ``step`` always is, becomes ``step (metric)``.

    Args:
        names: What the columns hold.
        what: What to add to a name that is taken: ``"metric"`` or ``"parameter"``.
        taken: Headings of the columns that stand before these.
    """
    names = list(names)
    used, found = set(taken), []
    others = set(names)
    for name in names:
        heading = name
        while heading in used or (heading != name and heading in others):
            heading = f"{heading} ({what})"
        used.add(heading)
        found.append(heading)
    return found


def table(run: Recording, name: str | None = None) -> Table:
    """See :meth:`StoredRun.table <cockpit.store.run.StoredRun.table>`.

    A column never takes the place of another: what is called like one, as a parameter or a metric with the name
    ``step``, becomes ``step (parameter)`` or ``step (metric)``. The exports do the same.
    """
    if name is None:
        return _wide(run)
    if name not in run.kinds:
        raise unknown("name", name, run.kinds)
    match run.kinds[name]:
        case Kind.SCALAR:
            series = run.scalar(name)
            return {STEP: series.steps, headings([name], "metric")[0]: series.values}
        case Kind.PER_PARAMETER:
            parts = run.parts(name)
            return {STEP: parts.steps, **dict(zip(headings(parts.keys, "parameter"), parts.values.T, strict=True))}
        case Kind.HISTOGRAM:
            return _histograms(run, name)
        case Kind.PER_SAMPLE:
            return _samples(run, name)


def _wide(run: Recording) -> Table:
    names = [name for name, kind in run.kinds.items() if kind in (Kind.SCALAR, Kind.PER_PARAMETER)]
    found = {name: run.scalar(name) for name in names}
    steps = np.unique(np.concatenate([np.empty(0, np.int64), *(series.steps for series in found.values())]))
    wide: Table = {STEP: steps}
    for heading, series in zip(headings(names, "metric"), found.values(), strict=True):
        wide[heading] = np.full(len(steps), np.nan)
        wide[heading][np.searchsorted(steps, series.steps)] = series.values
    return wide


def _histograms(run: Recording, name: str) -> Table:
    rows: dict[str, list[NDArray[Any]]] = {}
    for step in run.counted(name).tolist():
        histogram = run.histogram(name, step)
        names, places, counts = histogram.sparse()
        part, place = np.divmod(places, max(1, int(np.prod(histogram.shape))))
        new: Table = {"step": np.full(len(place), step), "parameter": np.array(names, dtype=object)[part]}
        for axis, bins in enumerate(np.unravel_index(place, histogram.shape), 1):
            suffix = "" if axis == 1 else f"_{axis}"
            new[f"low{suffix}"] = histogram.edges[axis - 1][bins]
            new[f"high{suffix}"] = histogram.edges[axis - 1][bins + 1]
        new["count"] = counts.astype(np.int64)
        for key, column in new.items():
            rows.setdefault(key, []).append(column)
    return {key: np.concatenate(columns) for key, columns in rows.items()} or {"step": np.empty(0, np.int64)}


def _samples(run: Recording, name: str) -> Table:
    found = [(record.step, np.asarray(record.value)) for record in run.records() if record.name == name]
    found = [(step, values) for step, values in found if values.ndim == 1 and values.dtype.kind in "biuf"]
    empty = np.empty(0, np.int64)
    (heading,) = headings([name], "metric", (STEP, "sample"))
    return {
        STEP: np.concatenate([empty, *(np.full(len(values), step) for step, values in found)]),
        "sample": np.concatenate([empty, *(np.arange(len(values)) for _, values in found)]),
        heading: np.concatenate([np.empty(0), *(values for _, values in found)]),
    }
