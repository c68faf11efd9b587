"""The histogram of all individual gradient elements: now, and over time."""

import numpy as np

from cockpit.core.histogram import Histogram
from cockpit.core.source import Values
from cockpit.panels._base import Instrument, Panel, Row, Spec
from cockpit.panels.axes import SHORT, expr, log_colour, log_ticks, param, step_params, step_x, ticks_at
from cockpit.panels.columns import spread_steps, step_edges
from cockpit.panels.rows import number, table
from cockpit.panels.runs import Runs
from cockpit.panels.theme import ACCENTS, ALARM
from cockpit.panels.undefined import nothing_to_see

NOW = Instrument(
    "hist1d",
    "Gradient elements",
    "gradients",
    "Is the learning signal sane?",
    "Counts (log) of all elements of all samples' gradients on a fixed range; the outermost bins hold what lies "
    "beyond. Healthy is a narrow peak with thin symmetric tails; mass in the outermost bins: data or loss are scaled "
    "wrongly; everything in the bins at 0: gradients vanish, look at the layers.",
    ("GradHist1d",),
    steps=False,
)
OVER_TIME = Instrument(
    "hist1d-time",
    "Gradient elements over time",
    "more",
    "Does the learning signal change its shape?",
    "One histogram of gradient elements for each column, darker is more (log). Healthy is a spindle that narrows "
    "slowly; a sudden widening: the step size is too large or a batch is odd; a line at 0: gradients vanish.",
    ("GradHist1d",),
)
COLUMNS, CELLS = 90, 50


def panel(runs: Runs) -> Panel:
    """Show the last or the asked histogram; outlines when runs are compared."""
    return draw(NOW, runs, "GradHist1d", "gradient element")


def draw(instrument: Instrument, runs: Runs, name: str, axis: str) -> Panel:
    """Show any one-dimensional histogram."""
    found = [(p, s) for p in range(len(runs)) if (s := runs.counted(p, name)) is not None]
    if not found:
        return instrument.nothing(nothing_to_see(runs, instrument.names))
    histograms = [(place, runs.sources[place].histogram(name, step)) for place, step in found]
    low, high = limits([one for _, one in histograms], runs.view.range)
    bars: list[Row] = []
    for place, one in histograms:
        bars += outline(one, runs.labels[place]) if runs.several else _bars(one)
    top = max(float(one.counts.max(initial=1)) for _, one in histograms)
    note = outliers(histograms[0][1])
    note = f"{runs.labels[found[0][0]]}: {note}" if runs.several else f"{note} · {runs.when(found[0][1])}"
    return instrument.panel(_spec(runs, low, high, top, axis), {"bars": bars}, note)


def limits(histograms: list[Histogram], how: str) -> tuple[float, float]:
    """The range of all bins, or of those that are not empty, with some air."""
    low = min(float(one.edges[0][0]) for one in histograms)
    high = max(float(one.edges[0][-1]) for one in histograms)
    if how == "fixed":
        return low, high
    ends = []
    for one in histograms:
        filled = np.flatnonzero(one.counts)
        ends += [abs(float(one.edges[0][filled[0]])), abs(float(one.edges[0][filled[-1] + 1]))] if len(filled) else []
    reach = 1.1 * max(ends, default=high)
    return max(low, -reach), min(high, reach)


def outliers(one: Histogram) -> str:
    """The share of elements in the outermost bins, in words."""
    total = max(int(one.counts.sum()), 1)
    share = float(one.counts[0] + one.counts[-1]) / total
    middle = float(one.counts[centre(one.edges[0])].sum()) / total
    where = f"beyond ±{-one.edges[0][0]:g}" if one.edges[0][0] == -one.edges[0][-1] else "in the outermost bins"
    outside = f"{number(100 * share)}%" if share else "nothing"
    return f"{outside} {where} · {number(100 * middle)}% next to 0"


def centre(edges: Values) -> slice:
    """The bins that touch 0."""
    right = int(np.searchsorted(edges, 0.0, "right"))
    touching = right - 2 if right >= 2 and edges[right - 1] == 0 else right - 1
    return slice(max(touching, 0), right)


def _bars(one: Histogram) -> list[Row]:
    filled = np.flatnonzero(one.counts)
    edges = one.edges[0]
    outer = np.isin(filled, (0, len(one.counts) - 1)).astype(int)
    return table(x=edges[filled], x2=edges[filled + 1], v=one.counts[filled], o=outer)


def outline(one: Histogram, run: str) -> list[Row]:
    """A staircase over all bins; an empty bin lies at the bottom of the log axis."""
    heights = np.repeat(np.maximum(one.counts.astype(np.float64), 0.5), 2)
    turns = np.diff(heights) != 0
    corner = np.append(True, turns) | np.append(turns, True)  # nothing happens between the corners
    return table(x=np.repeat(one.edges[0], 2)[1:-1][corner], v=heights[corner], run=run)


def count_y(title: str = "elements") -> Spec:
    """A log axis of counts from one half to the parameter ``top``."""
    scale = {"type": "log", "domain": [0.5, expr("top")], "nice": False}
    axis = {"title": title, **ticks_at(expr("yticks")), "labelExpr": SHORT, "labelLimit": 40}
    return {"field": "v", "type": "quantitative", "scale": scale, "axis": axis}


def _spec(runs: Runs, low: float, high: float, top: float, title: str) -> Spec:
    scale = {"domain": [expr("left"), expr("right")], "nice": False, "zero": False}
    axis = {"title": title, "tickCount": 5, "grid": False}
    x = {"field": "x", "type": "quantitative", "scale": scale, "axis": {**axis, "labelExpr": SHORT}}
    if runs.several:
        colours = {"domain": runs.labels, "range": list(runs.colours)}
        paint: Spec = {"field": "run", "type": "nominal", "scale": colours, "legend": None}
        layer: Spec = {"mark": {"type": "line", "clip": True, "strokeWidth": 1.2}}
        layer["encoding"] = {"color": paint, "order": {"value": None}}
    else:
        tones = {"domain": [0, 1], "range": [ACCENTS["gradients"], ALARM]}
        paint = {"field": "o", "type": "nominal", "scale": tones, "legend": None}
        tips = [{"field": "x", "title": "from"}, {"field": "x2", "title": "to"}, {"field": "v", "title": "elements"}]
        layer = {"mark": {"type": "rect", "clip": True}}
        layer["encoding"] = {"x2": {"field": "x2"}, "y2": {"datum": 0.5}, "color": paint, "tooltip": tips}
    ticks = list(log_ticks(1.0, max(top * 1.5, 10.0), 4))
    params = [param("left", low), param("right", high), param("top", top * 1.6), param("yticks", ticks)]
    return {"params": params, "encoding": {"x": x, "y": count_y()}, "layer": [{"data": {"name": "bars"}, **layer}]}


def over_time(runs: Runs) -> Panel:
    """Show the histograms of the first run as a heat map over steps."""
    steps = runs.sources[0].counted("GradHist1d") if len(runs) else np.empty(0, np.int64)
    if not len(steps):
        return OVER_TIME.nothing(nothing_to_see(runs, OVER_TIME.names))
    kept = spread_steps(steps, COLUMNS, runs)
    histograms = [runs.sources[0].histogram("GradHist1d", int(step)) for step in kept]
    low, high = limits(histograms, runs.view.range)
    left, right = step_edges(kept, runs)
    cells: list[Row] = []
    for place, one in enumerate(histograms):
        counts, edges = merged(one, CELLS)
        filled = np.flatnonzero(counts)
        same = {"step": float(left[place]), "s2": float(right[place]), "at": int(kept[place])}
        cells += table(y=edges[filled], y2=edges[filled + 1], c=counts[filled], **same)
    top = max(row["c"] for row in cells) if cells else 1
    note = f"{runs.labels[0]}, {len(kept)} of {len(steps)} histograms" if len(kept) < len(steps) else ""
    colour, tones = log_colour("c", "elements", 1.0, float(max(top, 2)))
    params = [*step_params(runs), param("bottom", low), param("ceiling", high), *tones]
    return OVER_TIME.panel(_heat(runs, params, colour), {"cells": cells}, note)


def merged(one: Histogram, cells: int) -> tuple[Values, Values]:
    """Counts with neighbouring bins joined until there are at most so many."""
    every = max(-(-one.shape[0] // cells), 1)
    starts = np.arange(0, one.shape[0], every)
    return np.add.reduceat(one.counts, starts), np.append(one.edges[0][starts], one.edges[0][-1])


def _heat(runs: Runs, params: list[Spec], colour: Spec) -> Spec:
    scale = {"domain": [expr("bottom"), expr("ceiling")], "nice": False, "zero": False}
    axis = {"title": "gradient element", "tickCount": 5, "grid": False, "labelExpr": SHORT}
    y = {"field": "y", "type": "quantitative", "scale": scale, "axis": axis}
    tips: list[Spec] = [
        {"field": "at", "title": "step"},
        {"field": "y", "title": "from"},
        {"field": "y2", "title": "to"},
    ]
    encoding = {
        **{"x": step_x(runs), "x2": {"field": "s2"}, "y": y, "y2": {"field": "y2"}, "color": colour},
        "tooltip": [*tips, {"field": "c", "title": "elements"}],
    }
    return {"params": params, "data": {"name": "cells"}, "mark": {"type": "rect", "clip": True}, "encoding": encoding}
