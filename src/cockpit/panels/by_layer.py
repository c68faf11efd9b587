"""A per-parameter quantity layer by layer: over steps, as ranges, by type, and relative to the weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cockpit.core.source import Parts, Series, Values
from cockpit.panels._base import Instrument, Panel, Row, Spec, slug
from cockpit.panels.axes import SHORT, expr, fitted, log_colour, param, step_params, step_x, ticks_at
from cockpit.panels.columns import spread_steps, step_edges
from cockpit.panels.gaps import segments
from cockpit.panels.labels import labels
from cockpit.panels.lines import Chart, Track, draw
from cockpit.panels.net import Layer, bands, by_type, combined, layers_of, rule_of
from cockpit.panels.rows import table
from cockpit.panels.runs import Runs
from cockpit.panels.theme import ACCENTS, OKABE_ITO, QUIET
from cockpit.panels.thin import thin
from cockpit.panels.undefined import nothing_to_see

COLUMNS, ROWS, LINES = 110, 96, 4000
CELLS = 6600  # of a heat map: many layers get fewer columns
TITLES = {
    "heat": "layer by step",
    "range": "range in each layer",
    "lines": "all layers over time",
    "type": "by type of layer",
    "weights": "relative to the weights",
}
QUESTIONS = {
    "heat": "Which layer, and since when?",
    "range": "Do the layers differ?",
    "lines": "Does one layer leave the others?",
    "type": "Does it depend on the type of layer?",
    "weights": "Is it large for the size of the weights?",
}
AIDS = {
    "heat": "One row for each layer from input to output, one column for each step, darker is larger (log); grey is "
    "exactly 0. Healthy is rows of similar tone that change slowly; rows that fade with depth: the signal vanishes, "
    "use normalisation, residual connections or another initialisation; a row that turns dark: that layer explodes.",
    "range": "Range over training (thin), middle half (thick) and present value (dot) of each layer. Healthy is dots "
    "inside their bars, and layers within a few decades; a dot far outside: that layer has just changed, look at what "
    "happened; layers many decades apart: give them their own learning rates or normalise.",
    "lines": "One line for each layer, darker is deeper. Healthy is a bundle; a line that leaves it names the layer to "
    "look at.",
    "type": "All layers of one type together. Healthy is types that move alike; when one type stands out, treat it "
    "apart: its own learning rate, weight decay or initialisation.",
    "weights": "The value of each layer over the norm of its weights. For updates healthy is about 1e-3; much more: "
    "lower the learning rate of that layer; much less: it hardly learns.",
}


def panels(runs: Runs, name: str) -> list[Panel]:
    """All views of a per-parameter quantity of the first run."""
    return [make(runs, name) for make in VIEWS.values()]


def instrument(what: str, name: str) -> Instrument:
    """The words of one view of a quantity."""
    title, steps = f"{name}: {TITLES[what]}", what != "range"
    names = (name, "Parameters") if what == "weights" else (name,)
    return Instrument(identity(what, name), title, "more", QUESTIONS[what], AIDS[what], names, steps)


def identity(what: str, name: str) -> str:
    """The id of one view of a quantity."""
    return f"layers-{what}-{slug(name)}"


def heat(runs: Runs, name: str) -> Panel:
    """A heat map of layer and step."""
    return _heat(runs, instrument("heat", name), name, lambda values, layers: values)


def heat_of(runs: Runs, words: Instrument, name: str) -> Panel:
    """The heat map under other words, of the first run that recorded the quantity."""
    holding = runs.holding(name)
    if not holding:
        return words.nothing(nothing_to_see(runs, words.names))
    made = _heat(runs.only(holding[0]), words, name, lambda values, layers: values)
    return replace(made, note=f"{runs.labels[holding[0]]}, {made.note}") if runs.several else made


def weights(runs: Runs, name: str) -> Panel:
    """A heat map of the value over the norm of the layer's weights."""
    words = instrument("weights", name)
    if name == "Parameters":
        return words.nothing("These are the weights themselves.")
    if not runs.holding("Parameters"):
        return words.nothing("Needs the norm of the weights: add 'Parameters' to the quantities.")
    sizes, steps = runs.parts(0, "Parameters"), runs.parts(0, name).steps

    def relative(values: Values, layers: Sequence[Layer]) -> Values:
        norms = combined(sizes, layers, "norm")
        at = np.clip(np.searchsorted(sizes.steps, steps, "right") - 1, 0, None)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio: Values = np.where(norms[at] > 0, values / norms[at], np.nan)
        return ratio

    return _heat(runs, words, name, relative)


def _heat(runs: Runs, words: Instrument, name: str, change: Callable[[Values, Sequence[Layer]], Values]) -> Panel:
    parts = runs.parts(0, name)
    found = layers_of(runs.sources[0], parts.keys, runs.view.layers)
    if not len(parts) or not found:
        return words.nothing(missing(runs, name))
    rows = bands(found, ROWS)
    values = change(combined(parts, rows, rule_of(runs.sources[0], name)), rows)
    kept = spread_steps(parts.steps, min(COLUMNS, CELLS // len(rows)), runs)
    values = values[np.isin(parts.steps, kept)]
    left, right = step_edges(kept, runs)
    step, row = np.nonzero(np.isfinite(values))
    tones = np.abs(values)  # a negative trace has a size, too
    cells = table(step=left[step], s2=right[step], at=kept[step], r=row, c=values[step, row], m=tones[step, row])
    if not cells:
        return words.nothing(f"{name} is undefined at every tracked step.")
    positive = tones[np.isfinite(tones) & (tones > 0)]
    low, high = (float(v) for v in np.quantile(positive, (0.02, 1.0))) if len(positive) else (0.1, 1.0)
    spec = heat_spec(runs, rows, name, low, max(high, low * 1.01))
    note = f"{len(found)} layer{'s' if len(found) > 1 else ''}" + (
        f", drawn as {len(rows)} rows" if len(rows) < len(found) else ""
    )
    return words.panel(spec, {"cells": cells}, note)


def missing(runs: Runs, name: str) -> str:
    """Why there are no layers to show."""
    if runs.view.layers is not None and len(runs.parts(0, name).keys):
        return f"No layer matches {runs.view.layers!r}; leave the filter empty to see all."
    return nothing_to_see(runs, (name,))


def rows_y(title: str | None = None) -> Spec:
    """A vertical axis with one row for each layer, the first one on top; the names are a parameter."""
    scale = {"domain": [expr("length(rows) - 0.5"), -0.5], "nice": False, "zero": False}
    every = expr("sequence(0, length(rows), max(ceil(length(rows) / max(floor(height / 10), 1)), 1))")
    axis = {"title": title, **ticks_at(every), "grid": False, "labelExpr": "rows[datum.value]", "labelLimit": 116}
    axis["labelFontSize"] = 9  # rows are no higher, however large the picture
    return {"field": "r", "type": "quantitative", "scale": scale, "axis": {**axis, "labelOverlap": False}}


def row_params(layers: Sequence[Layer]) -> list[Spec]:
    """The names of the rows: short ones for the axis, whole ones for whoever points at a row."""
    short = labels([layer.name.split(" … ")[0] for layer in layers])
    return [param("rows", short), param("full", [layer.name for layer in layers])]


def row_ends(y: Spec) -> tuple[list[Spec], Spec]:
    """The transform and the encodings that give each row its height."""
    ends = [{"calculate": "datum.r - 0.5", "as": "r1"}, {"calculate": "datum.r + 0.5", "as": "r2"}]
    return ends, {"y": {**y, "field": "r1"}, "y2": {"field": "r2"}}


def depth_colour(field: str, layers: Sequence[Layer]) -> tuple[Spec, list[Spec]]:
    """Layers told apart by colour: a few by name, many by depth; and the parameters this needs."""
    params = row_params(layers)
    legend: Spec = {"title": None, "labelExpr": "rows[datum.value]", "labelLimit": 116}
    if len(layers) <= len(OKABE_ITO):
        scale = {"domain": list(range(len(layers))), "range": list(OKABE_ITO[: len(layers)])}
        legend |= {"symbolType": "square", "symbolOpacity": 1, "symbolStrokeWidth": 0}
        return {"field": field, "type": "nominal", "scale": scale, "legend": legend}, params
    ends = expr("[0, floor(length(rows) / 3), floor(2 * length(rows) / 3), length(rows) - 1]")
    legend |= {**ticks_at(ends), "title": "depth", "gradientLength": expr("max(height - 20, 20)")}
    scale = {"domain": [0, expr("length(rows) - 1")], "nice": False}
    return {"field": field, "type": "quantitative", "scale": scale, "legend": legend}, params


def heat_spec(runs: Runs, layers: Sequence[Layer], title: str, low: float, high: float) -> Spec:
    """Cells of layer and step on a log colour scale; exactly 0 is grey."""
    ends, y = row_ends(rows_y())
    colour, tones = log_colour("m", title, low, high)
    tips = [{"field": "at", "title": "step"}, {"field": "layer", "title": "layer"}, {"field": "c", "title": title}]
    named = {"calculate": "full[datum.r]", "as": "layer"}
    rect = {"type": "rect", "clip": True}
    drawn: list[Spec] = [
        {
            "transform": [{"filter": "datum.m > 0"}],
            "mark": rect,
            "encoding": {"color": colour, "tooltip": tips},
        },
        {
            "transform": [{"filter": "datum.m === 0"}],
            "mark": {**rect, "color": QUIET, "opacity": 0.3},
            "encoding": {"tooltip": tips},
        },
    ]
    params = [*step_params(runs), *row_params(layers), *tones]
    encoding = {"x": step_x(runs), "x2": {"field": "s2"}, **y}
    data = {"data": {"name": "cells"}, "transform": [*ends, named]}
    return {"params": params, **data, "encoding": encoding, "layer": drawn}


def _layered(runs: Runs, name: str) -> tuple[Parts, list[Layer], Values] | None:
    """What was recorded, the layers or bands of layers to draw, and a number for each at each step."""
    parts = runs.parts(0, name)
    found = layers_of(runs.sources[0], parts.keys, runs.view.layers)
    if not len(parts) or not found:
        return None
    layers = bands(found, ROWS)
    return parts, layers, combined(parts, layers, rule_of(runs.sources[0], name))


def ranges(runs: Runs, name: str) -> Panel:
    """Range, middle half and present value of each layer."""
    words, there = instrument("range", name), _layered(runs, name)
    if there is None:
        return words.nothing(missing(runs, name))
    parts, layers, values = there
    known = np.flatnonzero(np.isfinite(values).any(1))
    now = int(max(known[known <= runs.latest(Series(parts.steps, values[:, 0]))], default=0))  # a step with a value
    inside = np.isin(parts.steps, runs.seen(Series(parts.steps, values[:, 0])).steps)
    values = np.where(inside[:, None], values, np.nan) if inside.any() else values
    axis = fitted([values[np.isfinite(values)]], runs.scale("log"))
    rows: list[Row] = []
    for place, layer in enumerate(layers):
        there = values[np.isfinite(values[:, place]), place]
        there = there[axis.holds(there)]
        if len(there):
            low, first, third, high = (float(v) for v in np.quantile(there, (0.0, 0.25, 0.75, 1.0)))
            last = float(values[now, place])
            row = {"r": place, "low": low, "q1": first, "q3": third, "high": high, "layer": layer.name}
            rows.append(row | ({"v": last} if np.isfinite(last) and axis.holds(np.array(last)) else {}))
    spec = {"params": [*axis.params, *row_params(layers)], **_range_spec(name, axis.type)}
    return words.panel(spec, {"rows": rows}, f"dot: {runs.when(int(parts.steps[now]))}")


def _range_spec(name: str, kind: str) -> Spec:
    scale = {"type": kind, "domain": [expr("ylo"), expr("yhi")], "nice": False}
    axis = {"title": name, **ticks_at(expr("yticks")), "labelExpr": SHORT}
    x = {"type": "quantitative", "scale": scale, "axis": axis}
    accent = ACCENTS["step size"]
    words = {"low": "lowest", "q1": "lower quarter", "v": "now", "q3": "upper quarter", "high": "highest"}
    tips = [{"field": "layer"}, *({"field": field, "title": title} for field, title in words.items())]

    def layer(mark: Spec, low: str, high: str | None) -> Spec:
        ends = {"x2": {"field": high}} if high else {}
        return {"mark": {**mark, "clip": True}, "encoding": {"x": {**x, "field": low}, **ends, "tooltip": tips}}

    layers = [
        layer({"type": "rule", "color": QUIET, "opacity": 0.7}, "low", "high"),
        layer({"type": "rule", "color": accent, "strokeWidth": 4, "opacity": 0.45}, "q1", "q3"),
        layer({"type": "point", "color": accent, "size": 22, "opacity": 1}, "v", None),
    ]
    return {"data": {"name": "rows"}, "encoding": {"y": rows_y()}, "layer": layers}


def lines(runs: Runs, name: str) -> Panel:
    """One line for each layer, coloured by depth."""
    words, found = instrument("lines", name), _layered(runs, name)
    if found is None:
        return words.nothing(missing(runs, name))
    parts, layers, values = found
    axis = fitted([values[np.isfinite(values)]], runs.scale("log"))
    points = min(runs.view.points, max(LINES // len(layers), 60))
    rows: list[Row] = []
    for place, layer in enumerate(layers):
        series = Series(parts.steps, values[:, place])
        pieces, series = segments(series, runs), series.defined()
        there = axis.holds(series.values)
        kept = Series(series.steps[there], series.values[there])
        drawn = thin(kept, points, runs.log, runs.view.span)
        piece = pieces[there][np.searchsorted(kept.steps, drawn.steps)]
        rows += table(step=drawn.steps, v=drawn.values, g=piece, k=layer.name, depth=place)
    colour, tones = depth_colour("depth", layers)
    encoding = {
        **{"x": step_x(runs), "y": axis.y(name), "color": colour, "detail": [{"field": "k"}, {"field": "g"}]},
    }
    params = [*step_params(runs), *axis.params, *tones]
    spec = {"params": params, "data": {"name": "lines"}, "mark": {"type": "line", "clip": True, "strokeWidth": 1.2}}
    return words.panel({**spec, "encoding": encoding}, {"lines": rows})


def types(runs: Runs, name: str) -> Panel:
    """One line for each type of layer."""
    words = instrument("type", name)
    parts = runs.parts(0, name)
    found = layers_of(runs.sources[0], parts.keys, runs.view.layers)
    if not len(parts) or not found:
        return words.nothing(missing(runs, name))
    kinds = by_type(found)[:6]
    values = combined(parts, kinds, rule_of(runs.sources[0], name))
    first = Runs(runs.sources[:1], runs.view)
    tracks = [Track(kind.name, name, [Series(parts.steps, values[:, place])]) for place, kind in enumerate(kinds)]
    return draw(words, first, Chart(tracks, name, scale="log"))


VIEWS: Mapping[str, Callable[[Runs, str], Panel]] = {
    "heat": heat,
    "range": ranges,
    "lines": lines,
    "type": types,
    "weights": weights,
}
