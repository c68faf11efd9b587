"""The histogram of gradient element against parameter, with both marginals in the same picture."""

import numpy as np

from cockpit.core.histogram import Histogram
from cockpit.core.source import Values
from cockpit.panels._base import Instrument, Panel, Row, Spec
from cockpit.panels.axes import SHORT, expr, log_colour, param, ticks_at
from cockpit.panels.rows import table
from cockpit.panels.runs import Runs
from cockpit.panels.theme import ACCENTS, QUIET
from cockpit.panels.undefined import nothing_to_see

INSTRUMENT = Instrument(
    "hist2d",
    "Gradient against parameter",
    "gradients",
    "What is happening in the network?",
    "Counts (log) of pairs of a parameter and one sample's gradient for it, with the distribution of each along the "
    "sides. Healthy is a compact cross around the origin; a tilted cloud: gradients pull large weights one way, as "
    "weight decay would; mass at the border: weights or gradients of the wrong scale.",
    ("GradHist2d",),
    steps=False,
)
STRIP = 0.24  # of the picture's width and height, for the marginals


def panel(runs: Runs) -> Panel:
    """Show the last or the asked histogram of the first run that has one."""
    return draw(INSTRUMENT, runs, "GradHist2d")


def draw(instrument: Instrument, runs: Runs, name: str) -> Panel:
    """Show any two-dimensional histogram."""
    place = next((p for p in range(len(runs)) if len(runs.sources[p].counted(name))), None)
    step = runs.counted(place, name) if place is not None else None
    if place is None or step is None:
        return instrument.nothing(nothing_to_see(runs, instrument.names))
    one = runs.sources[place].histogram(name, step)
    tone = runs.colours[place] if runs.several else ACCENTS["gradients"]
    picture = Picture(one, runs.view.range, tone)
    note = (f"{runs.labels[place]}, " if runs.several else "") + runs.when(step)
    return instrument.panel(picture.spec(), picture.datasets(), note)


class Picture:
    """A two-dimensional histogram: cells, and the marginals in strips above and to the right of them."""

    def __init__(self, one: Histogram, how: str, tone: str) -> None:
        self.tone = tone
        self.counts = one.counts  # [gradient bins, parameter bins]
        self.y_edges, self.x_edges = one.edges
        self.x_limits = _limits(self.x_edges, self.counts.sum(0), how)
        self.y_limits = _limits(self.y_edges, self.counts.sum(1), how)

    def datasets(self) -> dict[str, list[Row]]:
        """Return the cells and the marginals."""
        rows, columns = np.nonzero(self.counts)
        cells = table(
            x=self.x_edges[columns],
            x2=self.x_edges[columns + 1],
            y=self.y_edges[rows],
            y2=self.y_edges[rows + 1],
            c=self.counts[rows, columns],
        )
        (left, right), (bottom, top) = self.x_limits, self.y_limits
        zero = [{"x": 0, "x2": 0, "y": bottom, "y2": top}, {"x": left, "x2": right, "y": 0, "y2": 0}]
        return {"cells": cells, "marginals": [*self._above(), *self._right()], "zero": zero}

    def _above(self) -> list[Row]:
        counts = self.counts.sum(0)
        filled = np.flatnonzero(counts)
        base, size = _strip(self.y_limits)
        heights = base + size * _logged(counts)[filled]
        low, high = self.x_edges[filled], self.x_edges[filled + 1]
        ends = {"from": low, "to": high, "side": "parameter", "y": base}
        return table(x=low, x2=high, y2=heights, n=counts[filled], **ends)

    def _right(self) -> list[Row]:
        counts = self.counts.sum(1)
        filled = np.flatnonzero(counts)
        base, size = _strip(self.x_limits)
        lengths = base + size * _logged(counts)[filled]
        low, high = self.y_edges[filled], self.y_edges[filled + 1]
        ends = {"from": low, "to": high, "side": "gradient", "x": base}
        return table(y=low, y2=high, x2=lengths, n=counts[filled], **ends)

    def spec(self) -> Spec:
        """Return the specification: one view whose axes have room for the strips."""
        (left, right), (bottom, top) = self.x_limits, self.y_limits
        width, height = (right - left) * STRIP, (top - bottom) * STRIP
        params = [param("left", left), param("right", right + width), param("bottom", bottom)]
        colour, tones = log_colour("c", None, 1.0, float(max(self.counts.max(initial=1), 2)))
        params += [param("ceiling", top + height), *tones]
        params += [param("xticks2", _ticks(left, right)), param("yticks", _ticks(bottom, top))]
        encoding = {
            "x": _axis("x", "parameter", "left", "right", "xticks2"),
            "x2": {"field": "x2"},
            "y": _axis("y", "gradient", "bottom", "ceiling", "yticks"),
            "y2": {"field": "y2"},
        }
        ends = {"x": "parameter from", "x2": "parameter to", "y": "gradient from", "y2": "gradient to"}
        tips = [*({"field": end, "title": title} for end, title in ends.items()), {"field": "c", "title": "elements"}]
        side = [{"field": part} for part in ("side", "from", "to")] + [{"field": "n", "title": "elements"}]
        layers: list[Spec] = [
            {
                "data": {"name": "cells"},
                "mark": {"type": "rect", "clip": True},
                "encoding": {"color": _corner(colour), "tooltip": tips},
            },
            {
                "data": {"name": "marginals"},
                "mark": {"type": "rect", "clip": True, "color": self.tone, "opacity": 0.75},
                "encoding": {"tooltip": side},
            },
            {
                "data": {"name": "zero"},
                "mark": {"type": "rule", "color": QUIET, "opacity": 0.5, "strokeWidth": 0.7, "clip": True},
            },
        ]
        return {"params": params, "encoding": encoding, "layer": layers}


def _corner(colour: Spec) -> Spec:
    """The colour's legend in the corner that the two strips leave free."""
    place = {"orient": "none", "direction": "horizontal", "legendX": expr("width * 0.825"), "legendY": 2}
    size = {"gradientLength": expr("width * 0.16"), "gradientThickness": 6, "labelOverlap": True, "labelFontSize": 8}
    return {**colour, "legend": {**colour["legend"], **place, **size}}


def _axis(field: str, title: str, low: str, high: str, ticks: str) -> Spec:
    scale = {"domain": [expr(low), expr(high)], "nice": False, "zero": False}
    axis = {"title": title, **ticks_at(expr(ticks)), "grid": False, "labelExpr": SHORT}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def _ticks(low: float, high: float) -> list[float]:
    """The ends, and 0 or the middle."""
    return [float(f"{tick:.3g}") for tick in (low, 0.0 if low < 0 < high else (low + high) / 2, high)]


def _strip(limits: tuple[float, float]) -> tuple[float, float]:
    size = limits[1] - limits[0]
    return limits[1] + 0.03 * size, (STRIP - 0.03) * size


def _logged(counts: Values) -> Values:
    """Counts from 0 to 1 by their logarithm; one element is still seen."""
    logged: Values = np.log1p(counts) / np.log1p(max(counts.max(initial=1), 1))
    return logged


def _limits(edges: Values, counts: Values, how: str) -> tuple[float, float]:
    filled = np.flatnonzero(counts)
    if how == "fixed" or not len(filled):
        return float(edges[0]), float(edges[-1])
    reach = max(abs(float(edges[filled[0]])), abs(float(edges[filled[-1] + 1])))
    return max(float(edges[0]), -reach), min(float(edges[-1]), reach)
