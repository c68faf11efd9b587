"""Benchmark results as panels: learning curves, sensitivity, speed against performance, and how runs ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cockpit.core.source import Values
from cockpit.panels._base import Instrument, Notes, Panel, Row, Spec
from cockpit.panels.axes import SHORT, Axis, fitted, ticks_at
from cockpit.panels.lines import TOP
from cockpit.panels.rows import table
from cockpit.panels.theme import ALARM, QUIET, RUNS

DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2])
BEHIND = ([4, 3], [1.5, 2.5], [8, 3, 2, 3], [10, 3])  # of curves to compare with
LATE = 20  # a vertical axis fits what comes after this part (one over it) of the epochs


@dataclass(frozen=True)
class Curve:
    """The mean over seeds after 0, 1, 2 ... epochs, and a band around it; NaN where there is none."""

    name: str
    mean: Values
    low: Values
    high: Values
    seeds: int = 1
    diverged: Sequence[int] = ()  # epochs in which seeds diverged
    published: tuple[int, float] | None = None  # epoch and value that it is said to reach
    reference: bool = False  # lies behind, in grey


@dataclass(frozen=True)
class Grid:
    """Ends of runs by the value of one hyperparameter."""

    name: str
    values: Sequence[float]
    ends: Sequence[Values]  # for each value those of all seeds; NaN: diverged, or worse than at the start
    reference: bool = False
    joined: bool = True  # a line goes through the means: nothing else differs


@dataclass(frozen=True)
class End:
    """How the runs of one setting ended, and how soon they were good enough."""

    name: str
    ends: Values  # of all seeds; NaN: diverged
    speed: float = float("nan")  # epochs; more than there were: never
    epochs: int = 0
    published: float | None = None
    published_speed: float | None = None
    reference: bool = False


@dataclass(frozen=True)
class Measure:
    """What is measured, and which way is good."""

    title: str  # with the unit: "test accuracy (%)"
    rises: bool
    published: str = "published"  # what a published figure is called
    colours: Mapping[str, tuple[str, list[float]]] = field(default_factory=dict)  # see palette


def palette(names: Sequence[str]) -> dict[str, tuple[str, list[float]]]:
    """A colour and a dash for each name; the dash changes when the colours begin again."""
    return {
        name: (RUNS[place % len(RUNS)], list(DASHES[place // len(RUNS) % len(DASHES)]))
        for place, name in enumerate(names)
    }


def curves(title: str, found: Sequence[Curve], measure: Measure, id: str = "curves") -> Panel:
    """Learning curves: a line for the mean, a band over seeds, grey dashes for what to compare with."""
    instrument = Instrument(id, title, "performance", "how fast, and how far?", _CURVES, (), steps=False)
    if not any(np.isfinite(one.mean).any() for one in found):
        return instrument.nothing("no run has finished an epoch without diverging")
    last = max(len(one.mean) for one in found) - 1
    said = {one.name: one.published for one in found if one.published and one.published[0] <= last}
    axis = fitted([*_late(found, last), np.array([value for _, value in said.values()])])
    data: dict[str, list[Row]] = {"band": [], "lines": [], "alone": [], "ends": [], "edge": []}
    for one in found:
        known = np.isfinite(one.mean) & axis.holds(one.mean)
        epochs = np.flatnonzero(known)
        data["lines"] += table(x=epochs, v=one.mean[known], k=one.name)
        data["alone"] += table(x=epochs, v=one.mean[known], k=one.name) if len(epochs) == 1 else []  # no line shows it
        if one.seeds > 1 and not one.reference:
            low = np.maximum(one.low[known], axis.low) if axis.type == "log" else one.low[known]
            data["band"] += table(x=epochs, v=low, w=one.high[known], k=one.name)
        data["edge"] += [{"x": min(epoch, last), "k": one.name} for epoch in one.diverged]
    data["ends"] = [{"x": epoch, "v": value, "k": name} for name, (epoch, value) in said.items()]
    only = {"color": (paint := _paint(found, measure))["color"]}
    layers = [
        _layer("band", {"type": "area", "opacity": 0.18, "clip": True}, {**only, "y2": {"field": "w"}}),
        _layer("lines", {"type": "line", "clip": True}, paint),
        _layer("alone", {"type": "point", "clip": False, "filled": True, "size": 40, "opacity": 1}, only),
        _layer("ends", {**_DIAMOND, "clip": False}, only),
        _layer("edge", {**_CROSS, "color": ALARM}, {"y": {"value": 4}}),
    ]
    spec = {"encoding": {"x": _epochs(last), "y": _on(axis, measure.title)}, "layer": layers}
    return instrument.panel(spec, data, str(_said(found, bool(data["ends"]), bool(data["edge"]))))


def sensitivity(
    title: str, found: Sequence[Grid], measure: Measure, name: str = "lr", id: str = "sensitivity"
) -> Panel:
    """How runs end against a hyperparameter: dots are seeds, lines go through their means."""
    instrument = Instrument(id, title, "performance", "how well must it be tuned?", _SENSITIVITY, (), steps=False)
    data: dict[str, list[Row]] = {"means": [], "seeds": [], "edge": []}
    for grid in found:
        for value, ends in zip(grid.values, grid.ends, strict=True):
            good = np.isfinite(ends)
            same = {"x": value, "k": grid.name}
            mean = float(ends.mean()) if len(ends) and good.all() else None  # where a line breaks
            data["means"] += [{**same, "v": mean}] if grid.joined else []
            data["edge"] += [] if good.all() else [same]
            data["seeds"] += table(x=np.full(good.sum(), value), v=ends[good], k=grid.name)
    seen = np.array([row["v"] for row in data["seeds"]])
    values = np.array([value for grid in found for value in grid.values])
    if not len(seen):
        return instrument.nothing("no run has ended well: all are unfinished, diverged, or worse than at the start")
    axis, across = fitted([seen]), fitted([values], "log", pad=0.03)
    failed = [grid for grid in found if any(row["k"] == grid.name for row in data["edge"])]
    axis = _with_room(axis, 0.055 * len(failed), below=measure.rises)
    paint = _paint(found, measure)
    layers = [
        _layer("means", {"type": "line", "clip": True}, paint),
        _layer("seeds", {"type": "point", "clip": True, "size": 14, "opacity": 0.7}, {"color": paint["color"]}),
        *_failures(failed, paint["color"], measure.rises),
    ]
    bad = "crosses: diverged" if measure.rises else "crosses: diverged, or worse than at the start"
    x = _on(across, "learning rate" if name == "lr" else name, "x")
    x["axis"] |= {"grid": False, "ticks": True, "tickSize": 3}
    encoding = {"x": x, "y": _on(axis, measure.title)}
    return instrument.panel({"encoding": encoding, "layer": layers}, data, bad if data["edge"] else "")


def speed(title: str, found: Sequence[End], measure: Measure, id: str = "speed") -> Panel:
    """Epochs to the convergence performance against the end: good is left, and up (accuracy) or down (loss)."""
    instrument = Instrument(id, title, "performance", "soon, and good?", _SPEED, (), steps=False)
    known = [one for one in found if np.isfinite(one.speed) and len(one.ends) and np.isfinite(one.ends).all()]
    if not known:
        return instrument.nothing("no target is known for this problem, or no run has finished without diverging")
    data: dict[str, list[Row]] = {"dots": [], "published": [], "names": []}
    for one in known:
        mean, std = float(one.ends.mean()), float(one.ends.std())
        data["dots"] += [{"x": one.speed, "v": mean, "lo": mean - std, "hi": mean + std, "k": one.name}]
        if one.published is not None and one.published_speed is not None:
            data["published"] += [{"x": one.published_speed, "v": one.published, "k": one.name}]
        data["names"] += data["dots"][-1:] if one.reference else []  # all of these are grey
    both = [*data["dots"], *data["published"]]
    ends = np.array([row[at] for row in both for at in ("v", "lo", "hi") if at in row])
    axis, across = fitted([ends]), fitted([np.array([row["x"] for row in both])], "linear", include=[0.0])
    paint = {"color": _paint(known, measure, "circle")["color"]}
    reach = {"y": {"field": "lo", "type": "quantitative"}, "y2": {"field": "hi"}}
    layers = [
        _layer("dots", {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6}, {**paint, **reach}),
        _layer("dots", {"type": "point", "size": 70, "opacity": 1}, paint),
        _layer("published", {**_DIAMOND, "size": 70}, paint),
        _layer("names", {"type": "text", "align": "left", "dx": 8, "color": QUIET}, {"text": {"field": "k"}}),
    ]
    notes = Notes(["bars: one standard deviation"] if any(len(one.ends) > 1 for one in known) else [])
    notes.add(f"diamonds: {measure.published}" if data["published"] else "")
    never = [one.name for one in known if one.speed > one.epochs]
    notes.add(f"never good enough: {', '.join(never)}" if never else "")
    lost = [one.name for one in found if len(one.ends) and not np.isfinite(one.ends).all()]
    notes.add(f"diverged: {', '.join(lost)}" if lost else "")
    encoding = {"x": _on(across, "epochs to the convergence performance", "x"), "y": _on(axis, measure.title)}
    return instrument.panel({"encoding": encoding, "layer": layers}, data, str(notes))


def final(title: str, found: Sequence[End], measure: Measure, id: str = "final") -> Panel:
    """How each seed ended, and the mean; a grey tick is the published mean."""
    instrument = Instrument(id, title, "performance", "how good, and how sure?", _FINAL, (), steps=False)
    data: dict[str, list[Row]] = {"seeds": [], "means": [], "published": []}
    labels = []
    for one in found:
        good = one.ends[np.isfinite(one.ends)]
        lost = len(one.ends) - len(good)
        labels.append(f"{one.name} ({lost} of {len(one.ends)} diverged)" if lost else one.name)
        same = {"k": one.name, "n": labels[-1]}
        data["seeds"] += table(v=good, **same)
        data["means"] += [{"v": float(good.mean()), **same}] if len(good) and not lost else []
        data["published"] += [{"v": one.published, **same}] if one.published is not None else []
    seen = np.array([row["v"] for part in ("seeds", "published") for row in data[part]])
    if not len(seen):
        return instrument.nothing("no run has finished without diverging")
    axis = fitted([seen])
    paint = {"color": {**_paint(found, measure)["color"], "legend": None}}
    y = {"field": "n", "type": "nominal", "scale": {"domain": labels}, "axis": {"title": None, "labelLimit": 260}}
    tick = {"type": "tick", "thickness": 2, "opacity": 1}
    layers = [
        _layer("published", {**tick, "size": 18, "color": QUIET, "strokeDash": [2, 1.5]}, {}),
        _layer("seeds", {"type": "point", "size": 22, "opacity": 0.55}, paint),
        _layer("means", {**tick, "size": 12}, paint),
    ]
    notes = Notes(["dots: seeds, coloured tick: their mean"])
    notes.add(f"grey tick: {measure.published}" if data["published"] else "")
    return instrument.panel({"encoding": {"x": _on(axis, measure.title), "y": y}, "layer": layers}, data, str(notes))


_CURVES = "Mean over seeds after each epoch; the band is one standard deviation. A grey dashed line is a baseline."
_SENSITIVITY = "A wide, flat optimum means that the hyperparameter need not be tuned finely."
_SPEED = "The first epoch at which the test metric is as good as tuned baselines; one more than all if it never is."
_FINAL = "Overlapping seeds mean that a difference of means may be chance."
_HOLLOW: Spec = {"type": "point", "filled": False, "opacity": 1}
_CROSS: Spec = {**_HOLLOW, "shape": "M-1,-1L1,1M-1,1L1,-1", "size": 36, "strokeWidth": 1.8}
_DIAMOND: Spec = {**_HOLLOW, "shape": "diamond", "size": 45, "strokeWidth": 1.5}


def _late(found: Sequence[Curve], last: int) -> list[Values]:
    """What a vertical axis must show: not the steep beginning, nor a band below 0 around positive means."""
    begin = max(1, last // LATE) if last > 1 else 0
    seen = []
    for one in found:
        edges = (one.mean,) if one.reference or one.seeds < 2 else (one.mean, one.low, one.high)
        lowest = np.nanmin(one.mean[begin:], initial=np.inf)
        seen += [np.maximum(edge[begin:], lowest) if lowest > 0 else edge[begin:] for edge in edges]
    return seen


def _said(found: Sequence[Curve], marked: bool, diverged: bool) -> Notes:
    counts = sorted({one.seeds for one in found if not one.reference})
    notes = Notes()
    if counts and counts[-1] > 1:
        some = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        notes.add(f"mean of {some} seeds ± one standard deviation")
    outside = [one.published[0] for one in found if one.published]
    notes.add(
        "diamonds: published" if marked else f"published figures lie outside, at epoch {outside[0]}" if outside else ""
    )
    notes.add("red crosses: a seed diverged" if diverged else "")
    return notes


def _paint(found: Sequence[Curve] | Sequence[Grid] | Sequence[End], measure: Measure, symbol: str = "stroke") -> Spec:
    """Colours and dashes of names; references are grey and dashed."""
    names = [one.name for one in found]
    behind = [one.name for one in found if one.reference]
    look = dict(measure.colours) or palette([name for name in names if name not in behind])
    look |= {name: (QUIET, list(BEHIND[place % len(BEHIND)])) for place, name in enumerate(behind)}
    order = [name for name in look if name in names]
    columns = max(2, min(5, 380 // (6 * max(map(len, order), default=0) + 30)))
    legend = {**TOP, "symbolType": symbol, "columns": columns} | ({} if symbol == "stroke" else {"symbolSize": 60})
    scale = {"domain": order, "range": [look[name][0] for name in order]}
    dashes = {"domain": order, "range": [look[name][1] for name in order]}
    same: Spec = {"field": "k", "type": "nominal", "legend": legend}
    return {"color": {**same, "scale": scale}, "strokeDash": {**same, "scale": dashes}}


def _epochs(last: int) -> Spec:
    whole: Spec = {"values": list(range(last + 1))} if last < 7 else {"tickCount": 6}  # else there were half epochs
    axis = {"title": "epoch", "grid": False, "ticks": True, "tickSize": 3, "format": "d", **whole}
    scale = {"domain": [0, max(last, 1)], "nice": False}
    return {"field": "x", "type": "quantitative", "scale": scale, "axis": axis}


def _on(axis: Axis, title: str, field: str = "v") -> Spec:
    """The encoding of a number on a fitted axis, with all its numbers inside."""
    scale = {"type": axis.type, "domain": [axis.low, axis.high], "nice": False}
    scale |= {} if axis.type == "log" else {"zero": False}
    look = {"title": title, **ticks_at(list(axis.ticks)), "labelExpr": SHORT, "labelLimit": 40}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": look}


def _with_room(axis: Axis, share: float, below: bool) -> Axis:
    """The axis with free space for so large a share of it, at one end."""
    if axis.type == "log":
        factor = (axis.high / axis.low) ** share
        return replace(axis, low=axis.low / factor) if below else replace(axis, high=axis.high * factor)
    more = share * (axis.high - axis.low)
    return replace(axis, low=axis.low - more) if below else replace(axis, high=axis.high + more)


def _layer(data: str, mark: Spec, encoding: Spec) -> Spec:
    """Marks of one data set; single ones say their values to whoever points at them."""
    mark = {**mark, "tooltip": True} if mark["type"] in ("point", "tick") else mark
    return {"data": {"name": data}, "mark": mark, "encoding": encoding}


def _failures(found: Sequence[Grid], colour: Spec, rises: bool) -> list[Spec]:
    """Crosses at the edge where bad values are, a line of them for each name."""
    layers = []
    for place, grid in enumerate(found):
        shift = (-1 if rises else 1) * (4 + 9 * place)
        at = {"color": colour, "y": {"value": "height" if rises else 0}}
        layer = _layer("edge", {**_CROSS, "yOffset": shift}, at)
        layers.append({**layer, "transform": [{"filter": {"field": "k", "equal": grid.name}}]})
    return layers
