"""Numbers over steps: the picture that most instruments share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cockpit.core.source import Series
from cockpit.panels._base import Instrument, Notes, Panel, Row, Spec
from cockpit.panels.axes import Axis, fitted, step_params, step_x
from cockpit.panels.rows import short, table
from cockpit.panels.runs import Runs
from cockpit.panels.smooth import smooth
from cockpit.panels.theme import ACCENTS, ALARM, QUIET
from cockpit.panels.thin import thin, window
from cockpit.panels.undefined import nothing_to_see, not_finite, undefined

DASHES = ([1, 0], [5, 2], [2, 2], [8, 2, 2, 2])
SERIES = ("#56B4E9", "#7F7F7F", "#CC79A7", "#E69F00")  # after the group's accent
FEW = 80  # points that are also drawn as dots
MARKED = 40  # crosses at the edge, at most


@dataclass(frozen=True)
class Track:
    """One quantity over steps, in all runs."""

    label: str
    name: str  # the quantity it comes from
    series: Sequence[Series]  # one for each run
    error: Sequence[Series] = ()  # standard error of each value, one series for each run
    reference: bool = False  # a line to compare with, not a measurement


@dataclass(frozen=True)
class Mark:
    """A horizontal line with a word."""

    value: float
    label: str


@dataclass(frozen=True)
class Chart:
    """What is drawn: tracks, marks, and how high the axis is."""

    tracks: Sequence[Track]
    title: str | None  # of the vertical axis: the unit
    marks: Sequence[Mark] = ()
    scale: Literal["auto", "log", "linear"] = "auto"
    include: Sequence[float] = ()
    facts: Sequence[str] = field(default=())
    limits: tuple[float, float] | None = None  # of the vertical axis, instead of what the data need


def track(runs: Runs, name: str, label: str | None = None, error: str | None = "standard_error") -> Track:
    """A scalar or a total as a track, with its standard errors where these are recorded."""
    places = range(len(runs))
    series = [runs.scalar(place, name) for place in places]
    errors = [runs.detail(place, name, error) for place in places] if error else []
    return Track(label or name, name, series, errors if any(len(found) for found in errors) else ())


def draw(instrument: Instrument, runs: Runs, chart: Chart) -> Panel:
    """Draw a chart over steps, or say why there is nothing to see."""
    measured = [track for track in chart.tracks if not track.reference]
    if not any(len(series) for track in measured for series in track.series):
        return instrument.nothing(nothing_to_see(runs, instrument.names))
    axis = _axis(runs, chart)
    notes = Notes(list(chart.facts))
    datasets: dict[str, list[Row]] = {"lines": [], "raw": [], "band": [], "edge": []}
    for one in chart.tracks:
        for place, series in enumerate(one.series):
            _add(datasets, runs, one, place, series, axis, len(measured))
    zeros = sum(1 for row in datasets["edge"] if row["e"] == "zero")
    notes.add("triangles at the lower edge: exactly 0" if zeros else "")
    notes.add("red crosses at the upper edge: not finite" if len(datasets["edge"]) > zeros else "")
    for name in dict.fromkeys(one.name for one in measured):
        notes.add(undefined(runs, name))
    if chart.marks:
        datasets["marks"] = [{"v": mark.value, "t": mark.label} for mark in chart.marks if _inside(mark, axis)]
    return instrument.panel(_spec(instrument, runs, chart, axis), datasets, str(notes))


def _inside(mark: Mark, axis: Axis) -> bool:
    return axis.low <= mark.value <= axis.high


def _axis(runs: Runs, chart: Chart) -> Axis:
    if chart.limits is not None:
        return fitted([np.array(chart.limits)], chart.scale, pad=0.0)
    seen = []
    for one in chart.tracks:
        for series in one.series:
            part = window(series.steps, runs.view.span)
            seen += [] if one.reference else [series.values[part]]
    return fitted(seen, chart.scale, chart.include)


def _add(
    datasets: dict[str, list[Row]], runs: Runs, one: Track, place: int, series: Series, axis: Axis, tracks: int
) -> None:
    points, view = runs.points(tracks), runs.view
    same = {"run": runs.labels[place], "k": one.label}
    if not one.reference:
        datasets["edge"] += _edges(runs, one, place, series, axis, same)
    series = series.defined()
    there = axis.holds(series.values)
    series = Series(series.steps[there], series.values[there])
    drawn = series if one.reference else smooth(series, view.smoothing)
    drawn = thin(drawn, points, runs.log, view.span)
    few = {"d": 1} if len(drawn) <= FEW and not one.reference and not view.smoothing else {}
    datasets["lines"] += table(step=drawn.steps, v=drawn.values, **same, **few)
    if view.smoothing and not one.reference:
        raw = thin(series, points, runs.log, view.span)
        datasets["raw"] += table(step=raw.steps, v=raw.values, **same)
    if one.error:
        datasets["band"] += _band(series, one.error[place], points, runs, axis, same)


def _band(series: Series, error: Series, points: int, runs: Runs, axis: Axis, same: Row) -> list[Row]:
    """One standard error to both sides, where there is one."""
    steps, at, of = np.intersect1d(series.steps, error.steps, return_indices=True)
    values, errors = series.values[at], np.nan_to_num(error.values[of])
    kept = thin(Series(steps, values), points, runs.log, runs.view.span).steps
    pick = np.isin(steps, kept)
    low = np.maximum(values - errors, axis.low) if axis.type == "log" else values - errors
    return table(step=steps[pick], v=low[pick], w=(values + errors)[pick], **same)


def _edges(runs: Runs, one: Track, place: int, series: Series, axis: Axis, same: Row) -> list[Row]:
    """Values that the axis cannot hold: not finite (at the top), or 0 on a log axis (at the bottom)."""
    rows = []
    broken = not_finite(runs, place, one.name, series)
    for steps, sign in ((broken, "bad"), (series.steps[(series.values == 0) & (axis.type == "log")], "zero")):
        steps = steps[window(steps, runs.view.span)]
        every = max(-(-len(steps) // MARKED), 1)
        rows += table(step=steps[::every], e=sign, **same)
    return rows


def colour(instrument: Instrument, runs: Runs, labels: Sequence[str], references: Sequence[str] = ()) -> Spec:
    """The encodings that tell series apart: by colour and dash for one run, by dash when colour tells runs apart."""
    plain = [label for label in labels if label not in references]
    dashes = [DASHES[place % len(DASHES)] for place in range(len(plain))] + [[3, 3]] * len(references)
    order = [*plain, *references]
    legend: Any = {"orient": "top", "title": None, "symbolType": "stroke"} if len(order) > 1 else None
    dash = {"field": "k", "type": "nominal", "scale": {"domain": order, "range": dashes}, "legend": legend}
    if runs.several:
        by_run = {"domain": runs.labels, "range": list(runs.colours)}
        paint: Spec = {"field": "run", "type": "nominal", "scale": by_run, "legend": None}
    else:
        accents = [ACCENTS[instrument.group], *SERIES]
        tones = [accents[place % len(accents)] for place in range(len(plain))] + [QUIET] * len(references)
        paint = {"field": "k", "type": "nominal", "scale": {"domain": order, "range": tones}, "legend": legend}
    return {"color": paint, "strokeDash": dash}


def _spec(instrument: Instrument, runs: Runs, chart: Chart, axis: Axis) -> Spec:
    references = [one.label for one in chart.tracks if one.reference]
    paint = colour(instrument, runs, [one.label for one in chart.tracks], references)
    only_colour = {"color": paint["color"]}
    detail = [{"field": "run"}, {"field": "k"}]
    layers: list[Spec] = []
    if any(one.error for one in chart.tracks):
        band = {"type": "area", "opacity": 0.18, "clip": True}
        layers.append(_layer("band", band, {**only_colour, "y2": {"field": "w"}, "detail": detail}))
    if chart.marks:
        layers += mark_layers("marks")
    if runs.view.smoothing:
        raw = {"type": "line", "opacity": 0.25, "strokeWidth": 1, "clip": True}
        layers.append(_layer("raw", raw, {**only_colour, "detail": detail}))
    layers.append(_layer("lines", {"type": "line", "clip": True}, {**paint, "detail": detail}))
    dots = _layer("lines", {"type": "point", "clip": True, "size": 9, "opacity": 1}, only_colour)
    layers.append({**dots, "transform": [{"filter": "datum.d"}]})
    layers += edge_layers("edge", step_x(runs))
    params = [*step_params(runs), *axis.params]
    return {"params": params, "encoding": {"x": step_x(runs), "y": axis.y(chart.title)}, "layer": layers}


def _layer(data: str, mark: Spec, encoding: Spec) -> Spec:
    return {"data": {"name": data}, "mark": mark, "encoding": encoding}


def mark_layers(data: str) -> list[Spec]:
    """Dashed horizontal lines, each with its word at the right."""
    rule = {"type": "rule", "strokeDash": [3, 3], "color": QUIET, "strokeWidth": 1}
    word = {"type": "text", "align": "right", "baseline": "bottom", "dy": -1, "fontSize": 8.5}
    nowhere = {"x": None}
    at_right = {"x": {"value": "width"}, "text": {"field": "t"}}
    return [_layer(data, rule, nowhere), _layer(data, word, at_right)]


def edge_layers(data: str, x: Spec) -> list[Spec]:
    """Crosses at the upper edge where a value is not finite, triangles at the lower edge where it is 0."""
    cross = {"type": "point", "shape": "M-1,-1L1,1M-1,1L1,-1", "size": 40, "strokeWidth": 1.8, "filled": False}
    bad = {"data": {"name": data}, "transform": [{"filter": "datum.e === 'bad'"}], "mark": {**cross, "color": ALARM}}
    zero = {
        "data": {"name": data},
        "transform": [{"filter": "datum.e === 'zero'"}],
        "mark": {"type": "point", "shape": "triangle-down", "size": 16, "color": QUIET, "opacity": 0.8},
    }
    bad["mark"] |= {"clip": False, "opacity": 1}
    return [
        {**bad, "encoding": {"x": x, "y": {"value": 4}}},
        {**zero, "encoding": {"x": x, "y": {"value": "height"}}},
    ]


def last(series: Series) -> str:
    """The last finite number of a series as text; empty when there is none."""
    from cockpit.panels.rows import number

    defined = series.defined()
    return number(float(short(defined.values[-1:])[0])) if len(defined) else ""
