"""The numbers behind a panel in long form: a row for each value, with all digits, in columns that say what it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.source import Series, Source, Steps
from cockpit.dashboard.differences import spoken
from cockpit.panels import Panel, View
from cockpit.panels.learning_rate import PATTERN
from cockpit.panels.metrics import losses, shown
from cockpit.panels.net import layers_of
from cockpit.panels.runs import Runs

COLUMNS = (
    "run",
    "quantity",
    "step",
    "layer",
    "parameter",
    "sample",
    "low",
    "high",
    "low_2",
    "high_2",
    "count",
    "value",
)
TOTAL = "total"  # stands where a parameter would

Row = dict[str, Any]

# Panels that read what the user logged, or as many quantities as there are.
FOUND: Mapping[str, Callable[[Runs], list[str]]] = {
    "loss": losses,
    "metrics": shown,
    "learning-rate": lambda runs: [name for name in runs.names(Kind.SCALAR) if PATTERN.fullmatch(name)],
}


def rows(panel: Panel, sources: Sequence[Source], labels: Sequence[str], view: View) -> Iterator[Row]:
    """All values of the quantities that a panel reads, run by run; within the view's span, if it has one."""
    runs = Runs(sources, view)
    found = FOUND[panel.id](runs) if panel.id in FOUND else []
    for place, label in enumerate(labels):
        source = sources[place]
        for name in dict.fromkeys((*panel.names, *found)):
            kind = source.kinds.get(name)
            if kind in (Kind.SCALAR, Kind.PER_PARAMETER):
                values = _totals(source, name, kind, view) if kind is Kind.SCALAR else _parameters(source, name, view)
            elif kind is Kind.HISTOGRAM:
                values = _bins(runs, place, name, panel.steps, view)
            else:
                values = _samples(runs, place, name, panel.steps, view)
            for row in values:
                yield {"run": label, "quantity": name, **row}


def columns(content: Sequence[Row]) -> list[str]:
    """The columns that any row has, in a fixed order."""
    there = {key for row in content for key in row}
    return [key for key in COLUMNS if key in there]


def _totals(source: Source, name: str, kind: Kind, view: View) -> Iterator[Row]:
    series = source.scalar(name)
    word = {"parameter": TOTAL} if kind is Kind.PER_PARAMETER else {}
    for step, value in _within(series, view):
        yield {"step": step, **word, "value": spoken(value)}


def _parameters(source: Source, name: str, view: View) -> Iterator[Row]:
    """The total, and each parameter of the layers that the view lets through."""
    yield from _totals(source, name, Kind.PER_PARAMETER, view)
    parts = source.parts(name)
    place = {key: column for column, key in enumerate(parts.keys)}
    for layer in layers_of(source, parts.keys, view.layers):
        for key in layer.parameters:
            for step, value in _within(Series(parts.steps, parts.values[:, place[key]]), view):
                if not np.isnan(value):  # it was not measured
                    yield {"step": step, "layer": layer.name, "parameter": key, "value": spoken(value)}


def _bins(runs: Runs, place: int, name: str, over_time: bool, view: View) -> Iterator[Row]:
    """The filled bins: of each parameter at the shown step or, in a picture over steps, of all together at each."""
    source = runs.sources[place]
    for step in _steps(runs, place, name, over_time, view):
        found = source.histogram(name, step)
        if over_time:
            yield from _filled(found, TOTAL, found.counts.reshape(-1), step)
            continue
        parts = found.parts
        for layer in layers_of(source, tuple(parts), view.layers):
            for key in layer.parameters:
                yield from _filled(found, key, parts[key].reshape(-1), step)


def _filled(found: Histogram, parameter: str, counts: Any, step: int) -> Iterator[Row]:
    for at in np.flatnonzero(counts).tolist():
        row: Row = {"step": step, "parameter": parameter}
        for axis, bin in enumerate(np.unravel_index(at, found.shape)):
            more = f"_{axis + 1}" if axis else ""
            row[f"low{more}"] = float(found.edges[axis][bin])
            row[f"high{more}"] = float(found.edges[axis][bin + 1])
        yield {**row, "count": int(counts[at])}


def _samples(runs: Runs, place: int, name: str, over_time: bool, view: View) -> Iterator[Row]:
    for step in _steps(runs, place, name, over_time, view):
        for sample, value in enumerate(runs.sources[place].samples(name, step).tolist()):
            yield {"step": step, "sample": sample, "value": spoken(value)}


def _steps(runs: Runs, place: int, name: str, over_time: bool, view: View) -> list[int]:
    if over_time:
        steps = runs.sources[place].counted(name)
        kept: list[int] = steps[_inside(steps, view)].tolist()
        return kept
    step = runs.counted(place, name)
    return [] if step is None else [step]


def _within(series: Series, view: View) -> Iterator[tuple[int, float]]:
    kept = _inside(series.steps, view)
    return zip(series.steps[kept].tolist(), series.values[kept].tolist(), strict=True)


def _inside(steps: Steps, view: View) -> Any:
    low, high = view.span or (-np.inf, np.inf)
    return (steps >= low) & (steps <= high)
