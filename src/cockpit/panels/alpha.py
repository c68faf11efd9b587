"""Alpha: where on the fitted parabola each step landed, as a distribution and over time."""

from dataclasses import dataclass

import numpy as np

from cockpit.core.source import Series, Values
from cockpit.panels._base import Instrument, Panel, Row, Spec
from cockpit.panels.axes import expr, param, step_params, step_x, ticks_at
from cockpit.panels.gaps import segments
from cockpit.panels.lines import TOP, mark_layer
from cockpit.panels.recent import ENOUGH, counted, last_tenth, recent
from cockpit.panels.rows import number, table
from cockpit.panels.runs import Runs
from cockpit.panels.theme import ACCENTS, QUIET
from cockpit.panels.thin import place as placed
from cockpit.panels.thin import thin
from cockpit.panels.undefined import nothing_to_see, undefined

__all__ = ["distribution", "floor_rate", "last_tenth", "over_time", "summary"]

AID = (
    "Each step on a parabola fitted along it: -1 is where the step began, 0 the valley floor, +1 the opposite wall at "
    "equal height. Healthy is most steps between -1 and +1 and a mean somewhat above 0; many steps beyond +1 climb the "
    "other wall: lower the learning rate; nearly all at -1: the steps are too short, raise it. "
    "The note gives the median and where the middle half lies."
)
DISTRIBUTION = Instrument("alpha", "Alpha", "step size", "Are we crossing the valley?", AID, ("Alpha",), steps=False)
OVER_TIME = Instrument(
    "alpha-time",
    "Alpha over time",
    "step size",
    "Do the steps get too long or too short as training goes on?",
    "Alpha of each tracked step (dots), median and middle half (line and band). Healthy is a band between -1 and +1 "
    "that drifts slowly; when it rises to +1 or beyond, lower the learning rate; when it sinks to -1, raise it.",
    ("Alpha", "learning_rate"),
)
LIMITS = (-2.0, 2.0)
BINS = 20
BUCKETS = 40
FEWEST = 7  # values of a bucket whose quartiles are shown


@dataclass(frozen=True)
class Summary:
    """What a set of Alphas says."""

    mean: float
    median: float
    low: float  # quartiles
    high: float
    beyond: float  # share of steps that went further than the opposite wall


def summary(values: Values) -> Summary:
    """Mean, median, quartiles and the share beyond +1 of finite values."""
    low, median, high = (float(value) for value in np.quantile(values, (0.25, 0.5, 0.75)))
    return Summary(float(values.mean()), median, low, high, float((values > 1).mean()))


def floor_rate(alphas: Series, rates: Series) -> float | None:
    """The learning rate whose steps would end on the valley floor: the current one over 1 + median of late Alphas.

    None where there are too few steps to say it.
    """
    late, rates = recent(alphas), rates.defined()
    if len(late) < ENOUGH or not len(rates):
        return None
    at = np.clip(np.searchsorted(rates.steps, late.steps, "right") - 1, 0, None)
    rate, stretch = float(np.median(rates.values[at])), 1 + float(np.median(late.values))
    return rate / stretch if stretch > 0.05 else None


def distribution(runs: Runs) -> Panel:
    """Show the distribution over all training and over its end, on the parabola that defines the scale."""
    found = _alphas(runs, within=True)
    if not found:
        elsewhere = f"No Alpha between {runs.when(runs.span[0])} and {runs.when(runs.span[1])}."
        return DISTRIBUTION.nothing(elsewhere if _alphas(runs) else nothing_to_see(runs, DISTRIBUTION.names))
    low, high = _limits([series.values for _, series in found], runs.view.range)
    bars: list[Row] = []
    means: list[Row] = []
    for place, series in found:
        for when, part in (("all", series), ("last", recent(series))):
            same = {"run": runs.labels[place], "k": when}
            bars += _bars(part.values, low, high, same, outline=runs.several or when == "last")
            mean = float(part.values.mean())
            means.append({"x": float(np.clip(mean, low, high)), "mean": mean, "n": len(part), **same})
    top = max(row["v"] for row in bars)
    x = np.linspace(low, high, 61)
    parabola = table(x=x, v=x**2 * top / max(low**2, high**2))
    datasets = {"bars": bars, "means": means, "parabola": parabola}
    return DISTRIBUTION.panel(_spec(runs, low, high, top, means), datasets, _note(runs, found))


def _alphas(runs: Runs, within: bool = False) -> list[tuple[int, Series]]:
    """The runs that have an Alpha, and their Alphas; ``within``: in the view's span."""
    every = [(place, runs.scalar(place, "Alpha").defined()) for place in range(len(runs))]
    kept = [(place, runs.seen(series) if within else series) for place, series in every]
    return [(place, series) for place, series in kept if len(series)]


def _limits(values: list[Values], how: str) -> tuple[float, float]:
    if how == "fixed":
        return LIMITS
    together = np.concatenate(values)
    low, high = (float(value) for value in np.quantile(together, (0.05, 0.95)))
    return max(min(low, -1.2), -5.0) - 0.1, min(max(high, 1.2), 5.0) + 0.1  # the parabola must stay in the picture


def _bars(values: Values, low: float, high: float, same: Row, outline: bool) -> list[Row]:
    """Share of the steps in each bin; steps outside the limits count in the outermost bins."""
    counts, edges = np.histogram(np.clip(values, low, high), BINS, (low, high))
    share = counts / max(len(values), 1)
    if outline:  # a staircase: each bin from edge to edge, down to 0 at both ends
        return table(x=np.repeat(edges, 2), v=np.concatenate([[0.0], np.repeat(share, 2), [0.0]]), o=1, **same)
    there = share > 0
    return table(x=edges[:-1][there], x2=edges[1:][there], v=share[there], o=0, **same)


def _note(runs: Runs, found: list[tuple[int, Series]]) -> str:
    place, series = found[0]
    late = recent(series)
    said = summary(late.values)
    facts = [f"median {number(said.median)}", f"middle half {number(said.low)} to {number(said.high)}"]
    facts.append(f"{said.beyond:.0%} beyond +1")
    facts += _suggested(runs, place, series)
    whose = f"{runs.labels[place]}, " if runs.several else ""
    since = "" if runs.several or runs.broken(place) else runs.since(place, "Alpha")
    told = [fact for fact in (since, undefined(runs, "Alpha")) if fact]
    return f"{whose}{counted(late, series)}: " + " · ".join([*facts, *told])


def _suggested(runs: Runs, place: int, series: Series) -> list[str]:
    """The learning rate that the last steps call for, where there are enough and the run still goes on with them."""
    rate = None if runs.since(place, "Alpha") else floor_rate(series, runs.scalar(place, "learning_rate"))
    return [f"learning rate for Alpha = 0: {number(rate)}"] if rate is not None else []


def _spec(runs: Runs, low: float, high: float, top: float, means: list[Row]) -> Spec:
    paint, dash = _paint(runs)
    path = {"color": paint, "strokeDash": dash}
    layers: list[Spec] = [
        {"data": {"name": "parabola"}, "mark": {"type": "line", "color": QUIET, "strokeWidth": 1, "opacity": 0.8}},
        {
            "data": {"name": "bars"},
            "transform": [{"filter": "datum.o === 0"}],
            "mark": {"type": "rect", "opacity": 0.35, "clip": True},
            "encoding": {"x2": {"field": "x2"}, "y2": {"datum": 0}, "color": paint},
        },
        {
            "data": {"name": "bars"},
            "transform": [{"filter": "datum.o === 1"}],
            "mark": {"type": "line", "clip": True, "strokeWidth": 1.5},
            "encoding": {**path, "detail": [{"field": "run"}], "order": {"value": None}},
        },
        {"data": {"name": "means"}, "mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"y": None, **path}},
    ]
    params = [param("left", low), param("right", high), param("top", top * 1.08)]
    for when in ("all", "last"):
        there = [row for row in means if row["k"] == when]
        many = f" {there[0]['n']}" if len(there) == 1 else " steps"
        told = ", ".join(number(row["mean"]) for row in there)
        params.append(param(f"mean_{when}", many + (f", mean {told}" if len(runs) < 3 else "")))
    return {"params": params, "encoding": {"x": _x(), "y": _y()}, "layer": layers}


def _paint(runs: Runs) -> tuple[Spec, Spec]:
    """Colour and dash: all steps against the last ones, and runs against each other."""
    label = "datum.label === 'all' ? 'all' + mean_all : 'last' + mean_last"
    legend = {**TOP, "labelExpr": label}
    by_time = {"field": "k", "type": "nominal", "legend": legend}
    dash = {**by_time, "scale": {"domain": ["all", "last"], "range": [[2, 2], [1, 0]]}}
    if runs.several:
        scale = {"domain": runs.labels, "range": list(runs.colours)}
        return {"field": "run", "type": "nominal", "scale": scale, "legend": None}, dash
    return {**by_time, "scale": {"domain": ["all", "last"], "range": [QUIET, ACCENTS["step size"]]}}, dash


def _x() -> Spec:
    words = (
        "datum.value === -1 ? '−1 start' : datum.value === 1 ? '+1 opposite wall' : datum.value === 0 ? '0 floor' : "
        "(datum.value < 0 ? '≤ ' : '≥ ') + format(datum.value, '.2~g')"
    )
    axis = {"title": None, **ticks_at(expr("[left, -1, 0, 1, right]")), "labelExpr": words, "labelFlush": True}
    axis |= {"grid": True, "gridColor": QUIET, "gridOpacity": 0.6, "labelOverlap": True}
    scale = {"domain": [expr("left"), expr("right")], "nice": False, "zero": False}
    return {"field": "x", "type": "quantitative", "scale": scale, "axis": axis}


def _y() -> Spec:
    axis = {"title": "share of steps", "format": "~%", "tickCount": 3, "grid": False}
    return {"field": "v", "type": "quantitative", "scale": {"domain": [0, expr("top")], "nice": False}, "axis": axis}


def over_time(runs: Runs) -> Panel:
    """Show Alpha at each step, with a running median and the middle half."""
    found = _alphas(runs)
    if not found:
        return OVER_TIME.nothing(nothing_to_see(runs, ("Alpha",)))
    dots: list[Row] = []
    medians: list[Row] = []
    for place, series in found:
        same = {"run": runs.labels[place]}
        few = thin(series, min(runs.points(), 300 if len(found) == 1 else 100), runs.log, runs.view.span)
        inside = np.clip(few.values, *LIMITS)
        dots += table(step=few.steps, v=inside, a=few.values, k="Alpha", **same)
        lines = segments(runs.scalar(place, "Alpha"), runs)
        for line in np.unique(lines):
            part = Series(series.steps[lines == line], series.values[lines == line])
            medians += _medians(part, runs.log, {**same, "g": int(line), "k": "median"})
    facts = []
    for place, _ in found[:1]:
        since = "" if runs.several or runs.broken(place) else runs.since(place, "Alpha")
        within = runs.seen(runs.scalar(place, "Alpha").defined())
        facts += [since] if since else _suggested(runs, place, within)
    outside = sum(int((np.abs(series.values) > LIMITS[1]).sum()) for _, series in found)
    facts += [f"{outside} beyond ±2, drawn at the edge"] if outside else []
    datasets = {"dots": dots, "lines": medians, "marks": [{"v": 1.0}, {"v": 0.0}, {"v": -1.0}]}
    return OVER_TIME.panel(_time_spec(runs), datasets, " · ".join(facts))


def _medians(series: Series, log: bool, same: Row) -> list[Row]:
    """Median and quartiles of buckets that are even on the axis in use."""
    where = placed(series.steps, log)
    wanted = np.searchsorted(where, np.linspace(where[0], where[-1], BUCKETS + 1)[1:-1])
    cuts: list[int] = []
    for cut in wanted:  # a bucket of fewer values says nothing about their spread
        if cut - (cuts[-1] if cuts else 0) >= FEWEST and len(series) - cut >= FEWEST:
            cuts.append(int(cut))
    rows = []
    for part in np.split(np.arange(len(series)), cuts):
        low, middle, high = np.quantile(series.values[part], (0.25, 0.5, 0.75))
        rows.append((float(np.median(series.steps[part])), low, middle, high))
    columns = np.array(rows)
    return table(step=columns[:, 0], low=columns[:, 1], v=columns[:, 2], high=columns[:, 3], **same)


def _time_spec(runs: Runs) -> Spec:
    scale = {"domain": runs.labels, "range": list(runs.colours) if runs.several else [ACCENTS["step size"]]}
    paint: Spec = {"color": {"field": "run", "type": "nominal", "scale": scale, "legend": None}}
    joined = {**paint, "detail": [{"field": "g"}]}
    y_scale = {"domain": [-2.1, 2.1], "nice": False, "zero": False}
    words = "datum.value === -1 ? '−1 start' : datum.value === 1 ? '+1 wall' : datum.value === 0 ? '0 floor' : ''"
    y_axis = {"title": "Alpha", **ticks_at([-1, 0, 1]), "grid": False, "labelExpr": words}
    y = {"field": "v", "type": "quantitative", "scale": y_scale, "axis": y_axis}
    band = {"y": {**y, "field": "low"}, "y2": {"field": "high"}, **joined}
    layers = [
        mark_layer("marks"),
        {"data": {"name": "dots"}, "mark": {"type": "point", "size": 7, "opacity": 0.45}, "encoding": paint},
        {"data": {"name": "lines"}, "mark": {"type": "area", "clip": True, "opacity": 0.2}, "encoding": band},
        {"data": {"name": "lines"}, "mark": {"type": "line", "clip": True}, "encoding": joined},
    ]
    return {"params": step_params(runs), "encoding": {"x": step_x(runs), "y": y}, "layer": layers}
