"""A run as tables: one row a step for what is a number, one row a value for everything else."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.plain import text
from cockpit.core.record import Record
from cockpit.store.table import STEP, Recording, headings

Rows = Iterator[tuple[Any, ...]]
NAMES = ("scalars", "parameters", "histograms", "samples", "details", "undefined")


@dataclass(frozen=True)
class Table:
    """Columns with their types, and rows; None where there is no value."""

    name: str
    columns: Mapping[str, type]
    rows: Callable[[], Rows]


def tables(run: Recording) -> list[Table]:
    """Everything that was recorded, in the order of :data:`NAMES`; the wide table comes first.

    A quantity or metric that is called ``step`` has the column ``step (metric)`` there, as in
    :func:`~cockpit.store.table.table`.
    """
    about = {STEP: int, "quantity": str}
    axes = {"low": float, "high": float, "low_2": float, "high_2": float}
    long: list[tuple[dict[str, type], Callable[[Record], Rows]]] = [
        ({"parameter": str, "value": float}, _parameters),
        ({"parameter": str, **axes, "count": int}, _histograms),
        ({"sample": int, "value": float}, _samples),
        ({"detail": str, "parameter": str, "value": float, "word": str}, _details),
        ({"reason": str}, _undefined),
    ]
    return [
        _wide(run),
        *(
            Table(name, {**about, **columns}, partial(_each, run, rows))
            for name, (columns, rows) in zip(NAMES[1:], long, strict=True)
        ),
    ]


def _wide(run: Recording) -> Table:
    """Scalars, and the totals of what is measured per parameter."""
    names = [name for name, kind in run.kinds.items() if kind in (Kind.SCALAR, Kind.PER_PARAMETER)]

    def rows() -> Rows:
        cells: dict[int, dict[str, float]] = {}
        for name in names:
            absent = {step for steps in run.reasons(name).values() for step in steps}
            series = run.scalar(name)
            for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
                if step not in absent:
                    cells.setdefault(step, {})[name] = value
        for step in sorted(cells):
            yield (step, *(cells[step].get(name) for name in names))

    columns = headings(map(text, names), "metric")
    return Table(NAMES[0], {STEP: int, **dict.fromkeys(columns, float)}, rows)


def _each(run: Recording, rows: Callable[[Record], Rows]) -> Rows:
    for record in run.records():
        for row in rows(record):
            yield tuple(text(cell) if isinstance(cell, str) else cell for cell in row)


def _parameters(record: Record) -> Rows:
    if record.kind is not Kind.PER_PARAMETER:
        return
    for name, value in (record.value or {}).items():
        if isinstance(value, Mapping):  # several numbers about one parameter
            for key, number in value.items():
                if isinstance(number, Real):
                    yield record.step, f"{record.name}.{key}", name, float(number)
        else:
            yield record.step, record.name, name, float(value)


def _histograms(record: Record) -> Rows:
    """The bins that are not empty: nearly all others are."""
    if record.kind is not Kind.HISTOGRAM or not isinstance(record.value, Histogram):
        return
    edges = record.value.edges
    for name, counts in record.value.parts.items():
        filled = np.nonzero(counts)
        limits = [limit for axis, bins in zip(edges, filled, strict=True) for limit in (axis[bins], axis[bins + 1])]
        columns = [limit.tolist() for limit in limits] + [[None] * len(filled[0])] * (4 - len(limits))
        for *places, count in zip(*columns, counts[filled].tolist(), strict=True):
            yield record.step, record.name, name, *places, count


def _samples(record: Record) -> Rows:
    if record.kind is Kind.PER_SAMPLE and record.value is not None:
        for sample, value in enumerate(np.asarray(record.value).tolist()):
            yield record.step, record.name, sample, float(value)


def _details(record: Record) -> Rows:
    for key, value in record.details.items():
        for name, entry in value.items() if isinstance(value, Mapping) else [(None, value)]:
            number = float(entry) if isinstance(entry, Real) else None
            yield record.step, record.name, key, name, number, None if number is not None else str(entry)


def _undefined(record: Record) -> Rows:
    if record.reason is not None:
        yield record.step, record.name, record.reason
