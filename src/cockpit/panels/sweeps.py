"""A sweep as panels: tuned against untuned, gains, parallel coordinates, several optimizers against one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cockpit.core.source import Values
from cockpit.panels._base import Instrument, Panel, Row, Spec
from cockpit.panels.axes import SHORT, fitted, ticks_at
from cockpit.panels.bench import Measure
from cockpit.panels.lines import TOP
from cockpit.panels.theme import OKABE_ITO, QUIET

GOOD, BAD = "#D55E00", "#0072B2"  # better and worse, as the study coloured them
CAP = 3.0  # points of accuracy at which a colour is full
SHARE = 0.1  # of the untuned loss at which it is
LABELLED = 8  # axes of parallel coordinates that have room for numbers
BELOW = -0.12  # where parallel coordinates put what is worse than the axis begins


@dataclass(frozen=True)
class Line:
    """The values of one optimizer, in the order of the axis; NaN where there is none."""

    name: str
    values: Values


@dataclass(frozen=True)
class Upright:
    """One axis of parallel coordinates."""

    name: str
    low: float  # where it begins: untuned Adam
    high: float  # the best there is
    labels: tuple[str, str]  # of both


@dataclass(frozen=True)
class Pair:
    """How much better one optimizer is than another, and whether a test says so."""

    a: str
    b: str
    better: float  # more is better, for losses too
    sure: bool


def matrix(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    cap: float,
    id: str,
) -> Panel:
    """How much better tuned optimizers (columns) are than untuned ones (rows); orange is better, blue is worse."""
    instrument = Instrument(id, title, "performance", "does tuning pay?", _MATRIX, (), steps=False)
    cells: list[Row] = []
    for row, held in zip(rows, values, strict=True):
        for column, value in zip(columns, held, strict=True):
            known = value is not None and math.isfinite(value)
            shade = 0.0 if value is None or not known else min(1.0, abs(value) / cap)
            text = "–" if value is None or not known else _signed(value)
            cells.append({"r": row, "c": column, "o": 0.5 * shade, "w": GOOD if (value or 0) > 0 else BAD, "t": text})
    if not cells:
        return instrument.nothing("there are no untuned and tuned cells to compare")
    return _chequered(instrument, cells, "tuned", "untuned")


def pairs(title: str, found: Sequence[Pair], id: str) -> Panel:
    """How much better each optimizer (row) is than each other one (column); what may be noise has no colour."""
    instrument = Instrument(id, title, "performance", "which is better?", _PAIRS, (), steps=False)
    names = list(dict.fromkeys(name for pair in found for name in (pair.a, pair.b)))
    known = {(pair.a, pair.b): (pair.better, pair.sure) for pair in found}
    known |= {(pair.b, pair.a): (-pair.better, pair.sure) for pair in found}
    cells: list[Row] = []
    for row in names:
        for column in names:
            value, sure = known.get((row, column), (math.nan, False))
            text = "" if row == column else "–" if math.isnan(value) else _signed(value)
            cells.append({"r": row, "c": column, "o": 0.5 * sure, "w": GOOD if value > 0 else BAD, "t": text})
    if not cells:
        return instrument.nothing("no two optimizers have two seeds in common that did not diverge")
    return _chequered(instrument, cells, "than", "better by")


def _chequered(instrument: Instrument, cells: list[Row], across: str, down: str) -> Panel:
    """Names along both sides, and a colour and a number in each place."""
    named = {"type": "nominal", "sort": None}
    axis = {"labelLimit": 130, "ticks": False}
    x = {"field": "c", **named, "axis": {**axis, "title": across, "orient": "top", "labelAngle": -60}}
    y = {"field": "r", **named, "axis": {**axis, "title": down, "titlePadding": 14}}
    fill = {"field": "w", "type": "nominal", "scale": None, "legend": None}
    layers = [
        _layer(
            "cells", {"type": "rect"}, {"fill": fill, "opacity": {"field": "o", "type": "quantitative", "scale": None}}
        ),
        _layer("cells", {"type": "text", "fontSize": 8}, {"text": {"field": "t"}}),
    ]
    return instrument.panel({"encoding": {"x": x, "y": y}, "layer": layers}, {"cells": cells}, "")


def gain(title: str, places: Sequence[str], lines: Sequence[Line], id: str = "gain") -> Panel:
    """Relative gains by budget and schedule: a grey line for each optimizer and problem, the median in front."""
    instrument = Instrument(id, title, "performance", "what do tuning and schedules give?", _GAIN, (), steps=False)
    table = np.array([line.values for line in lines], dtype=np.float64).reshape(len(lines), len(places))
    if not np.isfinite(table).any():
        return instrument.nothing("there are no defaults with a constant schedule to compare with")
    quartiles = [
        np.percentile(column[np.isfinite(column)], [50, 25, 75]) if np.isfinite(column).any() else [np.nan] * 3
        for column in table.T
    ]
    middle, lower, upper = np.array(quartiles).T
    reach = max(np.nanmax(np.abs(np.concatenate([lower, upper]))), 0.01)
    low, high = min(-0.1 * reach, float(np.nanmin(lower)) - 0.4 * reach), 1.35 * reach
    spread = [
        {"x": place, "v": 100 * a, "w": 100 * b} for place, a, b in zip(places, lower, upper, strict=True) if a == a
    ]
    usual = [{"x": place, "v": 100 * value} for place, value in zip(places, middle, strict=True) if value == value]
    each = [
        {"x": place, "v": 100 * float(np.clip(value, low, high)), "k": line.name}
        for line in lines
        for place, value in zip(places, line.values, strict=True)
        if math.isfinite(value)
    ]
    x = {
        "field": "x",
        "type": "ordinal",
        "sort": list(places),
        "axis": {"title": None, "labelAngle": -40, "labelLimit": 140},
    }
    axis = {"title": "gain over the defaults (%)"}
    y = {
        "field": "v",
        "type": "quantitative",
        "scale": {"domain": [100 * low, 100 * high], "nice": False},
        "axis": axis,
    }
    layers = [
        _layer("each", {"type": "line", "opacity": 0.25, "color": QUIET, "strokeWidth": 1}, {"detail": {"field": "k"}}),
        _layer("spread", {"type": "area", "opacity": 0.2, "color": GOOD}, {"y2": {"field": "w"}}),
        _layer(
            "usual",
            {"type": "line", "color": GOOD, "strokeWidth": 2.5, "point": {"filled": True, "size": 30, "color": GOOD}},
            {},
        ),
    ]
    data = {"each": each, "spread": spread, "usual": usual}
    return instrument.panel({"encoding": {"x": x, "y": y}, "layer": layers}, data, "orange: median and quartiles")


def parallel(
    title: str,
    uprights: Sequence[Upright],
    lines: Sequence[Line],
    colours: Mapping[str, tuple[str, list[float]]],
    marks: Sequence[Line] = (),
    bar: tuple[Values, Values] | None = None,
    id: str = "parallel",
) -> Panel:
    """Parallel coordinates: an upright axis for each problem, from untuned Adam to the best; a line for each optimizer.

    Args:
        title: Heading.
        uprights: The axes.
        lines: Tuned optimizers, by their values on each axis.
        colours: A colour and a dash for each of them.
        marks: Untuned optimizers that are marked: the first by a triangle down, the second up.
        bar: The deviation of tuned Adam, drawn on each axis: values below and above its mean.
        id: Of the panel.
    """
    instrument = Instrument(id, title, "performance", "which work well after tuning?", _PARALLEL, (), steps=False)
    names = [axis.name for axis in uprights]
    data: dict[str, list[Row]] = {"lines": [], "marks": [], "bar": [], "ends": []}
    for line in lines:
        data["lines"] += [{"x": x, "v": v, "k": line.name} for x, v in _placed(uprights, line.values)]
    for line, shape in zip(marks, ("triangle-down", "triangle-up"), strict=False):
        data["marks"] += [{"x": x, "v": v, "s": shape} for x, v in _placed(uprights, line.values)]
    if bar is not None:
        ends = zip(_placed(uprights, bar[0]), _placed(uprights, bar[1]), strict=True)
        data["bar"] = [{"x": x, "v": low, "w": high} for (x, low), (_, high) in ends]
    for axis in uprights if len(uprights) <= LABELLED else uprights[-1:]:
        data["ends"] += [
            {"x": axis.name, "v": value, "t": text} for value, text in zip((0.0, 1.0), axis.labels, strict=True)
        ]
    if not data["lines"]:
        return instrument.nothing("no tuned cell has a mean: seeds diverged, or runs are still to do")
    shown = [line.name for line in lines]
    columns = max(2, min(5, 380 // (6 * max(map(len, shown)) + 30)))
    scale = {"domain": shown, "range": [colours[name][0] for name in shown]}
    dashes = {"domain": shown, "range": [colours[name][1] for name in shown]}
    same: Spec = {"field": "k", "type": "nominal", "legend": {**TOP, "symbolType": "stroke", "columns": columns}}
    paint = {"color": {**same, "scale": scale}, "strokeDash": {**same, "scale": dashes}}
    x = {
        "field": "x",
        "type": "ordinal",
        "sort": names,
        "axis": {"title": None, "labelAngle": 0 if len(names) < 4 else -25, "grid": True},
    }
    x["scale"] = {"type": "point", "padding": 0.35}
    y = {"field": "v", "type": "quantitative", "scale": {"domain": [1.5 * BELOW, 1.1], "nice": False}, "axis": None}
    small = {"type": "text", "align": "left", "dx": 7, "fontSize": 8}
    layers = [
        _layer("lines", {"type": "line"}, paint),
        _layer("lines", {"type": "point", "size": 22, "filled": True, "opacity": 1}, {"color": paint["color"]}),
        _layer("bar", {"type": "rule", "color": "#D7263D", "strokeWidth": 2.5, "opacity": 0.7}, {"y2": {"field": "w"}}),
        _layer(
            "marks",
            {"type": "point", "size": 70, "filled": True, "opacity": 1, "color": QUIET},
            {"shape": {"field": "s", "type": "nominal", "scale": None}},
        ),
        _layer("ends", small, {"text": {"field": "t"}}),
    ]
    said = "good is up; what lies below the axis is worse than untuned Adam"
    said += " · triangles: untuned Adam (down), AdaBound (up)" if data["marks"] else ""
    said += " · red bar: one deviation of tuned Adam" if data["bar"] else ""
    return instrument.panel({"encoding": {"x": x, "y": y}, "layer": layers}, data, said)


def against(
    title: str, untuned: Line, tuned: Sequence[Line], usual: Line, measure: Measure, id: str = "against"
) -> Panel:
    """What is to be expected of the best of m runs: of m untuned optimizers, and of m settings of one."""
    instrument = Instrument(id, title, "performance", "try several, or tune one?", _AGAINST, (), steps=False)
    seen = [line.values[np.isfinite(line.values)] for line in (untuned, usual, *tuned)]
    if not any(map(len, seen)):
        return instrument.nothing("no run can be chosen: all diverged")
    late = [line.values[len(line.values) // 4 :] for line in (untuned, usual)]  # what the first few runs give is steep
    focus = np.concatenate([values[np.isfinite(values)] for values in late])
    focus = focus if len(focus) else np.concatenate(seen)
    reach = focus.max() - focus.min() or 0.01 * abs(focus.max()) or 1.0
    inside = [values[(values > focus.min() - reach) & (values < focus.max() + reach)] for values in seen]
    axis = fitted([focus, *inside])
    data = {"each": [row for line in tuned for row in _runs(line)], "usual": _runs(usual), "untuned": _runs(untuned)}
    scale = {"type": axis.type, "domain": [axis.low, axis.high], "nice": False}
    scale |= {} if axis.type == "log" else {"zero": False}
    look = {"title": measure.title, **ticks_at(list(axis.ticks)), "labelExpr": SHORT, "labelLimit": 40}
    most = max(len(untuned.values), 2)
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [1, most], "nice": False},
        "axis": {"title": "runs", "tickMinStep": 1, "format": "d", "grid": False},
    }
    y = {"field": "v", "type": "quantitative", "scale": scale, "axis": look}
    order = ["untuned", "tuned: median", "tuned: each"]
    colour = {
        "field": "n",
        "type": "nominal",
        "scale": {"domain": order, "range": [OKABE_ITO[1], OKABE_ITO[0], QUIET]},
        "legend": {**TOP, "symbolType": "stroke", "columns": 3},
    }
    layers = [
        _layer(
            "each",
            {"type": "line", "strokeWidth": 1, "opacity": 0.35, "clip": True},
            {"detail": {"field": "k"}, "color": colour},
        ),
        _layer("usual", {"type": "line", "strokeWidth": 2.2, "clip": True}, {"color": colour}),
        _layer("untuned", {"type": "line", "strokeWidth": 2.2, "clip": True}, {"color": colour}),
    ]
    for name, label in zip(("untuned", "usual", "each"), order, strict=True):
        data[name] = [{**row, "n": label} for row in data[name]]
    note = "expected test value of the best by validation · by the tuning seed alone"
    return instrument.panel({"encoding": {"x": x, "y": y}, "layer": layers}, data, note)


_MATRIX = "An orange row: defaults that any tuned optimizer beats. A blue one: defaults that need no tuning."
_PAIRS = "A row is better than a column where it is orange, worse where it is blue; what has no colour may be noise."
_GAIN = "Each grey line is one optimizer on one problem; what lies outside is drawn at the edge."
_PARALLEL = "No optimizer is best everywhere where lines cross."
_AGAINST = "Where the orange line is as good as the blue one, trying optimizers with their defaults is worth as much."


def _placed(uprights: Sequence[Upright], values: Values) -> list[tuple[str, float]]:
    """Where values lie on their axes, from 0 to 1; what is far below lies at one place."""
    found = []
    for axis, value in zip(uprights, values, strict=True):
        width = axis.high - axis.low
        if math.isfinite(value) and width:
            found.append((axis.name, max(BELOW, (float(value) - axis.low) / width)))
    return found


def _runs(line: Line) -> list[Row]:
    return [
        {"x": place + 1, "v": float(value), "k": line.name}
        for place, value in enumerate(line.values)
        if math.isfinite(value)
    ]


def _signed(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:+.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:+.0f}" if abs(value) >= 100 else f"{value:+.1f}" if abs(value) >= 0.95 else f"{value:+.2f}"


def _layer(data: str, mark: Any, encoding: Spec) -> Spec:
    return {"data": {"name": data}, "mark": mark, "encoding": encoding}
