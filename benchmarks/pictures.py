"""Results as pictures, counterparts of the paper's overhead figures, drawn as the package draws its panels."""

from collections import Counter
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

from PIL import Image, ImageChops
from tables import EVERY, PRESETS, SMALL, Results, name, times

from cockpit.panels import Panel
from cockpit.panels.theme import OKABE_ITO, QUIET
from cockpit.plots.figure import draw

Spec = dict[str, Any]
Data = list[dict[str, Any]]

OURS, ORIGINAL, THIRD = OKABE_ITO[0], OKABE_ITO[1], OKABE_ITO[2]
TOOLS = {"cockpit": ("this package", OURS, "circle"), "original": ("the original", ORIGINAL, "diamond")}
COLOURS = dict(zip(PRESETS, (OURS, ORIGINAL, THIRD), strict=True))
TICKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]
MARGIN = 24  # pixels
STEP = "time of a step, multiple of a plain one"


def presets(results: Results, mode: str) -> bytes:
    """Each net with each preset, every step tracked."""
    keys = [key for key in results.nets(kind="time", every=1, what="economy") if key[0] in SMALL]
    data = {key: _preset_rows(results, mode, *key) for key in keys}
    limits = _limits(row["ratio"] for rows in data.values() for row in rows)
    sort = list(PRESETS)
    panels = [_dots(name(*key), rows, sort, limits) for key, rows in data.items() if rows]
    return _small(draw(panels, f"Every step tracked: {STEP}", _tools(results)))


def _preset_rows(results: Results, mode: str, net: str, optimizer: str) -> Data:
    key = {"kind": "time", "net": net, "optimizer": optimizer, "every": 1}
    return [row for what in PRESETS for row in _points(results, mode, {**key, "what": what}, what)]


def quantities(results: Results, mode: str, names: Sequence[str], net: str) -> bytes:
    """Each quantity alone on one net, the dearest first."""
    key = {"kind": "time", "net": net, "optimizer": "SGD", "every": 1}
    rows = [row for what in names for row in _points(results, mode, {**key, "what": what}, what)]
    cost = {row["y"]: row["ratio"] for row in sorted(rows, key=lambda row: row["tool"] == "this package")}
    sort = sorted(cost, key=lambda what: -cost[what])
    limits = _limits(row["ratio"] for row in rows)
    return _small(draw([_dots(f"Each quantity alone on {name(net)}", rows, sort, limits, alone=True)]))


def intervals(results: Results, mode: str) -> bytes:
    """Each preset at longer intervals."""
    nets = [net for net, _ in results.nets(kind="time", every=16) if net in SMALL][-3:]
    data = {net: _interval_rows(results, mode, net) for net in nets}
    top = _limits(row["ratio"] for rows in data.values() for row in rows)[1]
    panels = [_lines(name(net), rows, top) for net, rows in data.items()]
    return _small(draw(panels, f"Longer intervals: {STEP}, on average", list(COLOURS.items())))


def _interval_rows(results: Results, mode: str, net: str) -> Data:
    rows = []
    for tool, (label, _, _) in TOOLS.items():
        for what in PRESETS:
            for every in EVERY:
                key = {"kind": "time", "net": net, "optimizer": "SGD", "what": what, "every": every}
                row = results.one(tool, **key) if every else None
                if row is not None and "error" not in row:
                    found = {"tool": label, "what": what, "every": every, "colour": COLOURS[what]}
                    rows.append({**found, "ratio": max(1.0, row[f"{mode}ratio"])})
    counts = Counter((row["tool"], row["what"]) for row in rows)
    return [row for row in rows if counts[row["tool"], row["what"]] > 1]  # one point is no line


def _points(results: Results, mode: str, key: dict[str, Any], y: str) -> Data:
    rows = []
    for tool, (label, _, _) in TOOLS.items():
        row = results.one(tool, **key)
        if row is not None and "error" not in row:
            ratio = row[f"{mode}ratio"]
            rows.append({"y": y, "tool": label, "ratio": max(1.0, ratio), "text": times(ratio)})
    if rows:
        ends = sorted(row["ratio"] for row in rows)
        for row in rows:
            row |= {"one": 1, "from": ends[0], "to": ends[-1], "right": row["ratio"] == ends[-1]}
    return rows


def _tools(results: Results) -> list[tuple[str, str]]:
    return [(label, colour) for tool, (label, colour, _) in TOOLS.items() if results.find(tool)]


def _small(picture: bytes) -> bytes:
    """The same picture in fewer bytes: a drawing has few colours; without columns that nothing stands in."""
    file, whole = BytesIO(), Image.open(BytesIO(picture)).convert("RGB")
    filled = ImageChops.difference(whole, Image.new("RGB", whole.size, "white")).getbbox()
    right = whole.width if filled is None else min(whole.width, filled[2] + MARGIN)
    whole.crop((0, 0, right, whole.height)).quantize(96).save(file, "png", optimize=True)
    return file.getvalue()


def _limits(ratios: Iterable[float]) -> tuple[float, float]:
    """A log axis from 1 to the largest value, with room for a label on either side."""
    top = max([2.0, *ratios])
    return top**-0.16, top**1.16


def _scale(limits: tuple[float, float]) -> Spec:
    return {"type": "log", "domain": list(limits), "nice": False, "clamp": True}


def _axis(limits: tuple[float, float]) -> Spec:
    values = [tick for tick in TICKS if tick <= limits[1]]
    if len(values) > 7:
        values = [tick for tick in values if str(tick)[0] == "1"]
    return {"values": values, "format": ",d", "title": None}


def _dots(title: str, rows: Data, sort: list[str], limits: tuple[float, float], alone: bool = False) -> Panel:
    """A line for each y: a point for each tool, and a rule between them."""
    y = {"field": "y", "type": "nominal", "sort": sort, "title": None, "axis": {"grid": False, "labelLimit": 120}}
    x: Spec = {"field": "ratio", "type": "quantitative", "scale": _scale(limits), "axis": _axis(limits)}
    if alone:
        x["axis"]["title"] = STEP
    base = {"mark": {"type": "rule", "color": QUIET, "opacity": 0.5}, "encoding": {"x": {**x, "field": "one"}}}
    between = {
        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.4, "color": QUIET},
        "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "y": y},
    }
    there = sorted({row["tool"] for row in rows}, reverse=True)
    legend = {"orient": "top", "title": None, "direction": "horizontal", "values": there} if alone else None
    colour, shape = _by_tool(1, legend), _by_tool(2, legend)
    points = {
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
        "encoding": {"x": x, "y": y, "color": colour, "shape": shape},
    }
    lesser = ("right", -8, 0) if alone else ("center", 0, -9)  # where there is room: on its left may be the line at 1
    halo = {"stroke": "white", "strokeWidth": 3}  # the line at 1 is not drawn through a number
    labels = [
        {
            "mark": {"type": "text", "align": align, "dx": dx, "dy": dy, "fontSize": 9, **look},
            "transform": [{"filter": f"datum.right === {side}"}],
            "encoding": {"text": {"field": "text"}, "x": x, "y": y, **behind},
        }
        for align, dx, dy, side in (("left", 8, 0, "true"), (*lesser, "false"))
        for look, behind in ((halo, {}), ({}, {"color": colour}))
    ]
    return _panel(title, {"data": {"name": "rows"}, "layer": [base, between, points, *labels]}, rows)


def _by_tool(which: int, legend: Spec | None) -> Spec:
    """Colour (1) or shape (2) of each tool."""
    scale = {"domain": [tool[0] for tool in TOOLS.values()], "range": [tool[which] for tool in TOOLS.values()]}
    return {"field": "tool", "type": "nominal", "scale": scale, "legend": legend}


def _lines(title: str, rows: Data, top: float) -> Panel:
    """Ratio over interval, both on log axes; the original's lines are dashed."""
    x = {"field": "every", "type": "quantitative", "scale": {"type": "log", "base": 2, "domain": [1, 256]}}
    x["axis"] = {"values": [every for every in EVERY if every], "format": "d", "title": "tracking interval, steps"}
    y = {"field": "ratio", "type": "quantitative", "scale": _scale((1.0, top)), "axis": _axis((1.0, top))}
    colour = {"field": "colour", "type": "nominal", "scale": None}
    labels = [label for label, _, _ in TOOLS.values()]
    dash = {"field": "tool", "type": "nominal", "scale": {"domain": labels, "range": [[1, 0], [4, 3]]}, "legend": None}
    lines: Spec = {"mark": {"type": "line", "point": {"size": 28}}, "encoding": {"x": x, "y": y, "color": colour}}
    lines["encoding"] |= {"strokeDash": dash, "detail": {"field": "what"}}
    twice = {
        "mark": {"type": "rule", "strokeDash": [2, 2], "color": QUIET},
        "encoding": {"y": {"datum": 2, "type": "quantitative", "scale": _scale((1.0, top))}},
    }
    note = "dotted: twice the time"
    if any(row["tool"] == labels[1] for row in rows):
        note += " · dashed: the original"
    return _panel(title, {"data": {"name": "rows"}, "layer": [twice, lines]}, rows, note)


def _panel(title: str, spec: Spec, rows: Data, note: str = "") -> Panel:
    return Panel(title, title, "more", "", "", (), spec, {"rows": rows}, note)
