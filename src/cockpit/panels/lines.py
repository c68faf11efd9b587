"""Numbers over steps: the picture that most instruments share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cockpit.core.source import Series, Steps, Values
from cockpit.panels._base import Instrument, Notes, Panel, Row, Spec
from cockpit.panels.axes import Axis, fitted, step_params, step_x
from cockpit.panels.gaps import segments
from cockpit.panels.rows import number, table
from cockpit.panels.runs import Runs
from cockpit.panels.smooth import smooth
from cockpit.panels.theme import ACCENTS, ALARM, QUIET
from cockpit.panels.thin import place, thin, window
from cockpit.panels.trend import trend
from cockpit.panels.undefined import not_finite, nothing_to_see, undefined

DASHES = ([1, 0], [5, 2], [2, 2], [8, 2, 2, 2])
SERIES = ("#56B4E9", "#7F7F7F", "#CC79A7", "#E69F00")  # after the group's accent
TOP = {  # a legend that shows dashes
    **{"orient": "top", "title": None, "symbolType": "stroke", "symbolSize": 200, "symbolOpacity": 1}
}
ALONE = 3  # times as large is a dot that is no part of a line
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
class Chart:
    """What is drawn: tracks, marks, and how high the axis is."""

    tracks: Sequence[Track]
    title: str | None  # of the vertical axis: the unit
    marks: Sequence[float] = ()  # dashed horizontal lines, each with a tick
    scale: Literal["auto", "log", "linear"] = "auto"
    include: Sequence[float] = ()
    facts: Sequence[str] = field(default=())


def track(runs: Runs, name: str, label: str | None = None, error: str | None = "standard_error") -> Track:
    """A scalar or a total as a track, with its standard errors where these are recorded."""
    series = [runs.scalar(run, name) for run in range(len(runs))]
    errors = [runs.detail(run, name, error) for run in range(len(runs))] if error else []
    return Track(label or name, name, series, errors if any(len(found) for found in errors) else ())


def draw(instrument: Instrument, runs: Runs, chart: Chart) -> Panel:
    """Draw a chart over steps, or say why there is nothing to see."""
    measured = [track for track in chart.tracks if not track.reference]
    if not any(_visible(runs, one, run) for one in measured for run in range(len(one.series))):
        return instrument.nothing(nothing_to_see(runs, instrument.names))
    axis = _axis(runs, chart)
    notes = Notes([fact for fact in chart.facts if fact])
    datasets: dict[str, list[Row]] = {"lines": [], "raw": [], "band": [], "edge": []}
    for one in chart.tracks:
        for run, series in enumerate(one.series):
            _add(datasets, runs, one, run, series, axis, len(chart.tracks))
    zeros = sum(1 for row in datasets["edge"] if row["e"] == "zero")
    notes.add("triangles at the lower edge: exactly 0" if zeros else "")
    notes.add("red crosses at the upper edge: not finite" if len(datasets["edge"]) > zeros else "")
    for name in dict.fromkeys(one.name for one in measured):
        notes.add(undefined(runs, name))
    if chart.marks:
        datasets["marks"] = [{"v": mark} for mark in chart.marks if axis.low <= mark <= axis.high]
    return instrument.panel(_spec(instrument, runs, chart, axis), datasets, str(notes))


def _visible(runs: Runs, one: Track, run: int) -> bool:
    """Whether a track has anything to show in a run: numbers, or signs for such as are not finite."""
    series = one.series[run]
    return len(series.defined()) > 0 or len(not_finite(runs, run, one.name, series)) > 0


def _axis(runs: Runs, chart: Chart) -> Axis:
    seen = []
    for one in chart.tracks:
        for run, series in enumerate(one.series if not one.reference else ()):
            seen.append(series.values[window(series.steps, runs.view.span)])
            if one.error:
                steps, low, high = _reach(series, one.error[run])
                part = window(steps, runs.view.span)
                seen += [high[part], low[part][low[part] > 0]]  # a band below 0 is cut on a log axis
    return fitted(seen, runs.scale(chart.scale), chart.include).with_ticks(chart.marks)


def _add(
    datasets: dict[str, list[Row]], runs: Runs, one: Track, run: int, series: Series, axis: Axis, tracks: int
) -> None:
    points, view = runs.points(tracks), runs.view
    same = {"run": runs.labels[run], "k": one.label}
    if not one.reference:
        datasets["edge"] += _edges(runs, one, run, series, axis, same)
    lines = segments(series, runs)
    series = series.defined()
    there = axis.holds(series.values)
    series, lines = Series(series.steps[there], series.values[there]), lines[there]
    if one.error:
        datasets["band"] += _band(series, one.error[run], points, runs, axis, same)
    if one.reference:
        drawn = thin(series, points, runs.log, view.span)
        datasets["lines"] += table(step=drawn.steps, v=drawn.values, **same)
        return
    part = window(series.steps, view.span)
    course = trend(Series(series.steps[part], series.values[part]), lines[part], axis, runs.log) if view.band else None
    if course is not None and not view.smoothing:
        datasets["lines"] += table(step=course.steps, v=course.median, g=course.line, m=1, **same)
        datasets["band"] += table(step=course.steps, v=course.low, w=course.high, g=course.line, **same)
    else:
        datasets["lines"] += _points(smooth(series, view.smoothing), series, lines, points, runs, same)
    if view.smoothing or (course is not None and not runs.several):
        raw = thin(series, points, runs.log, view.span)
        datasets["raw"] += table(step=raw.steps, v=raw.values, g=_line_of(raw, series, lines), **same)


def _points(drawn: Series, series: Series, lines: Steps, points: int, runs: Runs, same: Row) -> list[Row]:
    """The points of a line; those that are drawn as dots too are marked: few ones, and such as stand alone."""
    drawn = thin(drawn, points, runs.log, runs.view.span)
    line = _line_of(drawn, series, lines)
    rows = table(step=drawn.steps, v=drawn.values, g=line, **same)
    few = len(drawn) <= FEW and not runs.view.smoothing
    counts = np.bincount(line, minlength=1)
    for row in rows:
        if counts[row["g"]] == 1:
            row["d"] = ALONE
        elif few:
            row["d"] = 1
    return rows


def _line_of(drawn: Series, series: Series, lines: Steps) -> Steps:
    """The unbroken line that each drawn point belongs to."""
    return lines[np.searchsorted(series.steps, drawn.steps)]


def _band(series: Series, error: Series, points: int, runs: Runs, axis: Axis, same: Row) -> list[Row]:
    """One standard error to both sides, where there is one."""
    steps, low, high = _reach(series, error)
    pick = np.isin(steps, thin(Series(steps, high), points, runs.log, runs.view.span).steps)
    low = np.maximum(low, axis.low) if axis.type == "log" else low
    return table(step=steps[pick], v=low[pick], w=high[pick], **same)


def _reach(series: Series, error: Series) -> tuple[Steps, Values, Values]:
    """Steps with a standard error, and the value less and plus it."""
    steps, at, of = np.intersect1d(series.steps, error.steps, return_indices=True)
    values, errors = series.values[at], np.nan_to_num(error.values[of])
    known = np.isfinite(values)
    return steps[known], (values - errors)[known], (values + errors)[known]


def _edges(runs: Runs, one: Track, run: int, series: Series, axis: Axis, same: Row) -> list[Row]:
    """Values that the axis cannot hold: not finite (at the top), or 0 on a log axis (at the bottom)."""
    rows = []
    broken = not_finite(runs, run, one.name, series)
    for steps, sign in ((broken, "bad"), (series.steps[(series.values == 0) & (axis.type == "log")], "zero")):
        rows += table(step=_apart(steps[window(steps, runs.view.span)], runs), e=sign, **same)
    return rows


def _apart(steps: Steps, runs: Runs) -> Steps:
    """Steps that are far enough from each other for a sign at each."""
    low, high = place(np.array(runs.span), runs.log)
    cell = np.floor((place(steps, runs.log) - low) / max(high - low, 1e-9) * MARKED)
    return steps[np.unique(cell, return_index=True)[1]]


def colour(instrument: Instrument, runs: Runs, labels: Sequence[str], references: Sequence[str] = ()) -> Spec:
    """The encodings that tell series apart: by colour and dash for one run, by dash when colour tells runs apart."""
    plain = [label for label in labels if label not in references]
    dashes = [DASHES[track % len(DASHES)] for track in range(len(plain))] + [[3, 3]] * len(references)
    order = [*plain, *references]
    legend: Any = dict(TOP) if len(order) > 1 else None
    dash = {"field": "k", "type": "nominal", "scale": {"domain": order, "range": dashes}, "legend": legend}
    if runs.several:
        by_run = {"domain": runs.labels, "range": list(runs.colours)}
        paint: Spec = {"field": "run", "type": "nominal", "scale": by_run, "legend": None}
    else:
        accents = [ACCENTS[instrument.group], *SERIES]
        tones = [accents[track % len(accents)] for track in range(len(plain))] + [QUIET] * len(references)
        paint = {"field": "k", "type": "nominal", "scale": {"domain": order, "range": tones}, "legend": legend}
    return {"color": paint, "strokeDash": dash}


def _spec(instrument: Instrument, runs: Runs, chart: Chart, axis: Axis) -> Spec:
    references = [one.label for one in chart.tracks if one.reference]
    paint = colour(instrument, runs, [one.label for one in chart.tracks], references)
    only_colour = {"color": paint["color"]}
    detail = [{"field": "run"}, {"field": "k"}, {"field": "g"}]
    layers: list[Spec] = []
    if runs.view.band or any(one.error for one in chart.tracks):
        band = {"type": "area", "opacity": 0.18, "clip": True}
        layers.append(_layer("band", band, {**only_colour, "y2": {"field": "w"}, "detail": detail}))
    if chart.marks:
        layers.append(mark_layer("marks"))
    if runs.view.smoothing or runs.view.band:
        raw = {"type": "line", "opacity": 0.25, "strokeWidth": 0.8, "clip": True}
        layers.append(_layer("raw", raw, {**only_colour, "detail": detail}))
    layers.append(_layer("lines", {"type": "line", "clip": True}, {**paint, "detail": detail}))
    size = {
        "field": "d",
        "type": "quantitative",
        "scale": {"domain": [1, ALONE], "range": [9, 9 * ALONE]},
        "legend": None,
    }
    dots = _layer("lines", {"type": "point", "clip": True, "opacity": 1}, {**only_colour, "size": size})
    layers.append({**dots, "transform": [{"filter": "datum.d"}]})
    layers += edge_layers("edge", step_x(runs))
    params = [*step_params(runs), *axis.params]
    return {"params": params, "encoding": {"x": step_x(runs), "y": axis.y(chart.title)}, "layer": layers}


def _layer(data: str, mark: Spec, encoding: Spec) -> Spec:
    return {"data": {"name": data}, "mark": mark, "encoding": encoding}


def mark_layer(data: str) -> Spec:
    """Dashed horizontal lines."""
    return _layer(data, {"type": "rule", "strokeDash": [3, 3], "color": QUIET, "strokeWidth": 1}, {"x": None})


def edge_layers(data: str, x: Spec) -> list[Spec]:
    """Crosses at the upper edge where a value is not finite, triangles at the lower edge where it is 0."""
    cross = {"type": "point", "shape": "M-1,-1L1,1M-1,1L1,-1", "size": 40, "strokeWidth": 1.8, "filled": False}
    bad = _layer(data, {**cross, "color": ALARM, "opacity": 1}, {"x": x, "y": {"value": 4}})
    mark = {"type": "point", "shape": "triangle-down", "size": 16, "color": QUIET, "opacity": 0.8}
    zero = _layer(data, mark, {"x": x, "y": {"value": "height"}})
    return [
        {**bad, "transform": [{"filter": "datum.e === 'bad'"}]},
        {**zero, "transform": [{"filter": "datum.e === 'zero'"}]},
    ]


def last(runs: Runs, one: Track, run: int = 0) -> str:
    """What a track has come to: its last number in view, or since when it has none; empty when it never had one."""
    if since := runs.since(run, one.name):
        return "" if runs.broken(run) else since
    defined = one.series[run].defined()
    until = int(np.searchsorted(defined.steps, runs.end, "right"))
    return number(float(defined.values[until - 1])) if until else ""


def now(runs: Runs, one: Track) -> list[str]:
    """The present value of the only run as a fact; with its step where the view ends before the run does."""
    said = last(runs, one) if len(runs) == 1 else ""
    if not said or "since" in said:
        return [said] if said else []
    return [f"now {said}" if runs.view.span is None else f"at the end {said}"]


def labelled(runs: Runs, tracks: Sequence[Track]) -> list[str]:
    """The present values of several tracks of the only run, each after its label."""
    return [f"{one.label} {said}" for one in tracks if (said := last(runs, one))] if len(runs) == 1 else []
