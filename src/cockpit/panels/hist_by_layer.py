"""Histograms layer by layer: ridges by depth, heat maps of layer and bin, by type, and the cloud coloured by layer."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from cockpit.core.histogram import Histogram
from cockpit.core.source import Values
from cockpit.panels._base import Instrument, Panel, Row, Spec
from cockpit.panels.axes import SHORT, expr, log_colour, param
from cockpit.panels.by_layer import depth_colour, heat_spec, identity, row_ends, row_params, rows_y
from cockpit.panels.columns import spread_steps, step_edges
from cockpit.panels.hist1d import centre
from cockpit.panels.lines import DASHES, SERIES, TOP
from cockpit.panels.net import Layer, bands, by_type, counts_of, layers_of
from cockpit.panels.rows import table
from cockpit.panels.runs import Runs
from cockpit.panels.theme import ACCENTS, RUNS
from cockpit.panels.undefined import nothing_to_see

RIDGES, ROWS, COLUMNS, CELLS = 24, 96, 60, 50
HEIGHT = 1.5  # of a ridge, in rows: it may reach into the next one
AXES = ("gradient element", "parameter")  # of a two-dimensional histogram; a one-dimensional one has the first
TITLES = {
    "ridge": "by depth",
    "bins": "layer by bin",
    "away": "away from 0, layer by step",
    "bytype": "by type of layer",
    "cloud": "cloud coloured by layer",
    "parameters": "parameters, layer by bin",
    "gradients": "gradients, layer by bin",
}
AIDS = {
    "ridge": "The distribution (log counts) in each layer, from input on top to output below. Healthy is hills of "
    "similar width; spikes at 0 in some layers: their gradients vanish; hills at the borders: they explode.",
    "bins": "Share of a layer's elements in each bin, darker is more (log). Healthy is rows alike; a row that is one "
    "dark cell at 0 gets no signal: look at its activation and initialisation.",
    "away": "Share of a layer's elements that lie outside the bins next to 0, over training (log); grey is none. "
    "Healthy is rows of similar tone; layers that turn grey get no gradient any more.",
    "bytype": "Share of the elements in each bin (log), for all layers of one type together. Healthy is similar "
    "outlines; when one type is far wider, give it its own learning rate or clip it.",
    "cloud": "Parameter against gradient element, coloured by the layer with the largest share of its elements there, "
    "fainter where there are few. Healthy is layers that overlap around the origin; one colour alone at the border "
    "names the layer whose weights or gradients are too large.",
    "parameters": "Share of a layer's parameters in each bin, darker is more (log). Healthy is rows alike; mass at "
    "the border: weights grow too large, add weight decay.",
    "gradients": "Share of a layer's gradient elements in each bin, darker is more (log). Healthy is rows alike; a "
    "row that is one dark cell at 0 gets no signal.",
}
QUESTION = "Is the learning signal sane in every layer?"


def panels(runs: Runs, name: str) -> list[Panel]:
    """All views of a histogram of the first run."""
    step = runs.counted(0, name)
    flat = step is None or len(runs.sources[0].histogram(name, step).edges) == 1
    return [make(runs, name) for what, make in VIEWS.items() if (what in FLAT) == flat]


def instrument(what: str, name: str) -> Instrument:
    """The words of one view of a histogram."""
    title = f"{name}: {TITLES[what]}"
    return Instrument(identity(what, name), title, "more", QUESTION, AIDS[what], (name,), what == "away")


def _now(runs: Runs, name: str) -> tuple[int, Histogram, list[Layer]] | None:
    step = runs.counted(0, name)
    if step is None:
        return None
    one = runs.sources[0].histogram(name, step)
    return step, one, layers_of(runs.sources[0], one.sparse()[0], runs.view.layers)


def _missing(runs: Runs, name: str) -> str:
    if runs.view.layers is not None and runs.counted(0, name) is not None:
        return f"No layer matches {runs.view.layers!r}; leave the filter empty to see all."
    return nothing_to_see(runs, (name,))


def _along(one: Histogram, layer: Layer, parts: Mapping[str, NDArray[np.int64]], axis: int) -> Values:
    """Share of a layer's elements in each bin along one axis."""
    counts = counts_of(parts, layer)
    if counts is None:
        return np.zeros(one.shape[axis])
    line = counts.sum(1 - axis) if counts.ndim == 2 else counts
    return np.asarray(line / max(line.sum(), 1), dtype=np.float64)


def _x(one: Histogram, axis: int, how: str, shares: Values, title: str) -> tuple[Spec, list[Spec]]:
    edges = one.edges[axis]
    low, high = float(edges[0]), float(edges[-1])
    filled = np.flatnonzero(shares.sum(0))
    if how == "auto" and len(filled):
        reach = max(abs(float(edges[filled[0]])), abs(float(edges[filled[-1] + 1])))
        low, high = max(low, -reach), min(high, reach)
    scale = {"domain": [expr("left"), expr("right")], "nice": False, "zero": False}
    x_axis = {"title": title, "tickCount": 5, "grid": False, "labelExpr": SHORT}
    x = {"field": "x", "type": "quantitative", "scale": scale, "axis": x_axis}
    return x, [param("left", low), param("right", high)]


def ridge(runs: Runs, name: str) -> Panel:
    """Hills of log counts, one for each layer or band of layers."""
    words, found = instrument("ridge", name), _now(runs, name)
    if found is None or not found[2]:
        return words.nothing(_missing(runs, name))
    step, one, layers = found
    layers, parts = bands(layers, RIDGES), one.parts
    heights = np.array([np.log1p(held) if (held := counts_of(parts, layer)) is not None else 0 for layer in layers])
    heights = HEIGHT * heights / max(float(heights.max()), 1e-9)
    x = np.repeat(one.edges[0], 2)[1:-1]
    rows: list[Row] = []
    for place in range(len(layers)):
        top = place - np.repeat(heights[place], 2)
        counts = counts_of(parts, layers[place])
        held = np.repeat(counts if counts is not None else np.zeros(one.shape[0]), 2)
        rows += table(x=x, r=top, v=held, base=float(place), k=place)
    x_axis, params = _x(one, 0, runs.view.range, heights, AXES[0])
    y = rows_y()
    y["scale"]["domain"] = [expr("length(rows) - 0.8"), -1.6]
    colour = {"field": "k", "type": "quantitative", "legend": None, "scale": {"domain": [0, max(len(layers) - 1, 1)]}}
    encoding = {"x": x_axis, "y": y, "y2": {"field": "base"}, "color": colour, "order": {"field": "k"}}
    mark = {"type": "area", "opacity": 0.75, "line": {"strokeWidth": 0.8}, "clip": True}
    params += row_params(layers)
    named = {"calculate": "full[datum.k]", "as": "layer"}
    spec = {"params": params, "data": {"name": "ridges"}, "transform": [named], "mark": mark}
    spec["encoding"] = encoding | {"detail": [{"field": "k"}], "tooltip": [{"field": "layer"}]}
    return words.panel(spec, {"ridges": rows}, runs.when(step))


def _cells(runs: Runs, name: str, what: str, axis: int) -> Panel:
    words, found = instrument(what, name), _now(runs, name)
    if found is None or not found[2]:
        return words.nothing(_missing(runs, name))
    step, one, layers = found
    layers, parts = bands(layers, ROWS), one.parts
    shares = np.array([_along(one, layer, parts, axis) for layer in layers])
    every = max(-(-shares.shape[1] // CELLS), 1)
    starts = np.arange(0, shares.shape[1], every)
    joined = np.add.reduceat(shares, starts, axis=1)
    edges = np.append(one.edges[axis][starts], one.edges[axis][-1])
    row, column = np.nonzero(joined)
    cells = table(x=edges[column], x2=edges[column + 1], r=row, c=joined[row, column])
    x, params = _x(one, axis, runs.view.range, shares, AXES[axis])
    ends, y = row_ends(rows_y())
    colour, tones = log_colour("c", "share", float(joined[joined > 0].min(initial=0.1)), 1.0)
    params += [*row_params(layers), *tones]
    ends_of = [{"field": "x", "title": "from"}, {"field": "x2", "title": "to"}]
    tips = [{"field": "layer"}, *ends_of, {"field": "c", "title": "share"}]
    data = {"data": {"name": "cells"}, "transform": [*ends, {"calculate": "full[datum.r]", "as": "layer"}]}
    encoding = {"x": x, "x2": {"field": "x2"}, **y, "color": colour, "tooltip": tips}
    spec = {"params": params, **data, "mark": {"type": "rect", "clip": True}, "encoding": encoding}
    return words.panel(spec, {"cells": cells}, runs.when(step))


def bins(runs: Runs, name: str) -> Panel:
    """A heat map of layer and bin."""
    return _cells(runs, name, "bins", 0)


def gradients(runs: Runs, name: str) -> Panel:
    """The gradient side of a two-dimensional histogram, layer by layer."""
    return _cells(runs, name, "gradients", 0)


def parameters(runs: Runs, name: str) -> Panel:
    """The parameter side of a two-dimensional histogram, layer by layer."""
    return _cells(runs, name, "parameters", 1)


def away(runs: Runs, name: str) -> Panel:
    """A heat map of layer and step: the share of elements that are not next to 0."""
    words, found = instrument("away", name), _now(runs, name)
    if found is None or not found[2]:
        return words.nothing(_missing(runs, name))
    layers = bands(found[2], ROWS)
    kept = spread_steps(runs.sources[0].counted(name), COLUMNS, runs)
    left, right = step_edges(kept, runs)
    shares = np.array([_away(runs.sources[0].histogram(name, int(step)), layers) for step in kept])
    step, row = np.nonzero(np.isfinite(shares))
    values = shares[step, row]
    cells = table(step=left[step], s2=right[step], at=kept[step], r=row, c=values, m=values)
    least = float(values[values > 0].min(initial=0.1))
    spec = heat_spec(runs, layers, "share", least, max(float(values.max()), 1.01 * least))
    return words.panel(spec, {"cells": cells})


def _away(one: Histogram, layers: list[Layer]) -> list[float]:
    names, places, counts = one.sparse()
    size = one.shape[0]
    part, place, near = places // size, places % size, centre(one.edges[0])
    outside = (place < near.start) | (place >= near.stop)
    whole = np.bincount(part, counts, len(names))
    far = np.bincount(part[outside], counts[outside], len(names))
    column = {name: index for index, name in enumerate(names)}
    shares = []
    for layer in layers:
        held = [column[key] for key in layer.parameters if key in column]
        total = float(whole[held].sum())
        shares.append(float(far[held].sum()) / total if total else float("nan"))
    return shares


def by_types(runs: Runs, name: str) -> Panel:
    """Outlines of the distribution, one for each type of layer."""
    words, found = instrument("bytype", name), _now(runs, name)
    if found is None or not found[2]:
        return words.nothing(_missing(runs, name))
    step, one, layers = found
    kinds, parts = by_type(layers)[:6], one.parts
    shares = np.array([_along(one, kind, parts, 0) for kind in kinds])
    least = 10.0 ** np.floor(np.log10(float(shares[shares > 0].min(initial=0.1))))
    rows: list[Row] = []
    for place, kind in enumerate(kinds):
        heights = np.maximum(shares[place], least / 2)
        rows += table(x=np.repeat(one.edges[0], 2)[1:-1], v=np.repeat(heights, 2), k=kind.name)
    x, params = _x(one, 0, runs.view.range, shares, AXES[0])
    scale = {"type": "log", "domain": [expr("least"), 1], "nice": False}
    y_axis = {"title": "share", "labelExpr": SHORT, "tickCount": 4}
    labels = [kind.name for kind in kinds]
    legend = dict(TOP) if len(labels) > 1 else None
    tones = [ACCENTS["gradients"], *SERIES, *RUNS][: len(labels)]
    encoding = {
        "x": x,
        "y": {"field": "v", "type": "quantitative", "scale": scale, "axis": y_axis},
        "color": {"field": "k", "type": "nominal", "scale": {"domain": labels, "range": tones}, "legend": legend},
        "strokeDash": {
            **{"field": "k", "type": "nominal", "legend": legend},
            "scale": {"domain": labels, "range": [DASHES[place % len(DASHES)] for place in range(len(labels))]},
        },
        "order": {"value": None},
    }
    spec = {"params": [*params, param("least", least / 2)], "data": {"name": "lines"}}
    spec |= {"mark": {"type": "line", "clip": True, "strokeWidth": 1.3}, "encoding": encoding}
    return words.panel(spec, {"lines": rows}, runs.when(step))


def cloud(runs: Runs, name: str) -> Panel:
    """The two-dimensional histogram, each cell coloured by the layer that has most of its own elements there."""
    words, found = instrument("cloud", name), _now(runs, name)
    if found is None or not found[2]:
        return words.nothing(_missing(runs, name))
    step, one, layers = found
    layers, parts = bands(layers, ROWS), one.parts
    held = [counts_of(parts, layer) for layer in layers]
    counts = np.array([np.zeros(one.shape, np.int64) if part is None else part for part in held])
    total = counts.sum(0)
    shares = counts / np.maximum(counts.sum((1, 2)), 1)[:, None, None]  # so that a small layer is seen beside a big one
    most = shares.argmax(0)
    row, column = np.nonzero(total)
    here = total[row, column]
    cells = table(
        x=one.edges[1][column],
        x2=one.edges[1][column + 1],
        y=one.edges[0][row],
        y2=one.edges[0][row + 1],
        r=most[row, column],
        n=here,
        o=0.45 + 0.55 * np.log1p(here) / np.log1p(max(int(here.max(initial=1)), 1)),
    )
    x, params = _x(one, 1, runs.view.range, total, AXES[1])
    colour, tones = depth_colour("r", layers)
    y, limits = _x(one, 0, runs.view.range, total.T, AXES[0])
    y = {**y, "field": "y", "scale": {**y["scale"], "domain": [expr("bottom"), expr("ceiling")]}}
    params += [*tones, param("bottom", limits[0]["value"]), param("ceiling", limits[1]["value"])]
    return words.panel({"params": params, **_cloud_spec(x, y, colour)}, {"cells": cells}, runs.when(step))


def _cloud_spec(x: Spec, y: Spec, colour: Spec) -> Spec:
    ends = {"x": "parameter from", "x2": "parameter to", "y": "gradient from", "y2": "gradient to", "n": "elements"}
    tips = [{"field": "layer", "title": "mostly"}, *({"field": end, "title": title} for end, title in ends.items())]
    encoding = {
        **{"x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"}, "color": colour, "tooltip": tips},
        "opacity": {"field": "o", "type": "quantitative", "scale": None},
    }
    data = {"data": {"name": "cells"}, "transform": [{"calculate": "full[datum.r]", "as": "layer"}]}
    return {**data, "mark": {"type": "rect", "clip": True}, "encoding": encoding}


VIEWS: Mapping[str, Callable[[Runs, str], Panel]] = {
    "ridge": ridge,
    "bins": bins,
    "away": away,
    "bytype": by_types,
    "cloud": cloud,
    "parameters": parameters,
    "gradients": gradients,
}
FLAT = ("ridge", "bins", "away", "bytype")  # of one-dimensional histograms; the others of two-dimensional ones
