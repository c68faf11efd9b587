"""Panels side by side: three columns with thin accents, the performance row below, further panels under that."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any

from cockpit.panels import Panel
from cockpit.panels._base import GROUPS, Row, Spec
from cockpit.panels.theme import ACCENTS, ALARM

COLUMNS = ("step size", "gradients", "curvature")
WIDE, HIGH = 310, 112  # of a plot in a column
SHORT_WIDE, SHORT_HIGH = 213, 96  # of one of four in the performance row
SINGLE = (560, 280)
GAP = 22
SHARED = frozenset({"lo", "hi", "unit", "xticks"})  # the step axis is the same in all panels
LETTER = 4.6  # mean width of a small letter

_APART = ("color", "fill", "stroke", "strokeDash", "opacity", "size", "shape")
RESOLVE = {part: dict.fromkeys(_APART, "independent") for part in ("scale", "legend")}


def page(
    panels: Sequence[Panel],
    title: str,
    runs: Sequence[tuple[str, str]],
    columns: int | None = None,
    size: tuple[int, int] | None = None,
) -> Spec:
    """Lay panels out as one specification that holds all data; the heading of a run that broke says so."""
    alone = len(panels) == 1 and columns is None
    alarms = list(dict.fromkeys(one.alarm for one in panels if one.alarm))
    if runs:  # of several the heading says which is broken, once
        panels = [replace(one, alarm="") for one in panels]
    wide, high = size or (SINGLE if alone else (WIDE, HIGH))
    rows: list[Spec] = [_key(runs, (columns or 3) * wide)] if runs else []
    holder = _Holder()
    grouped = {group: [one for one in panels if one.group == group] for group in COLUMNS}
    if alone:
        rows.append(holder.place(panels[0], wide, high))
    elif columns is None and len(panels) > 3 and any(grouped.values()):
        rows += _deck(holder, grouped, [one for one in panels if one.group == "performance"])
        rows += _grid(holder, [one for one in panels if one.group == "more"], 3, WIDE, HIGH)
    else:
        rows += _grid(holder, panels, columns or 3, wide, high)
    spec: Spec = {"vconcat": rows, "spacing": GAP, "resolve": RESOLVE}
    spec |= {"params": holder.params, "datasets": holder.datasets, "padding": 14}
    if title and not alone:
        spec["title"] = {"text": title, "fontSize": 15, "anchor": "start", "offset": 10}
        spec["title"] |= {"subtitle": alarms, "subtitleColor": ALARM, "subtitleFontSize": 12} if alarms else {}
    elif runs and alarms:
        spec["title"] = {"text": alarms, "color": ALARM, "fontSize": 12, "anchor": "start", "offset": 10}
    return spec


def _deck(holder: "_Holder", columns: Mapping[str, list[Panel]], performance: Sequence[Panel]) -> list[Spec]:
    used = {group: panels for group, panels in columns.items() if panels}
    cells = [_heading(group, WIDE) for group in used]
    for row in range(max(len(panels) for panels in used.values())):
        cells += holder.row([panels[row] if row < len(panels) else None for panels in used.values()], WIDE, HIGH)
    rows: list[Spec] = [{"concat": cells, "columns": len(used), "spacing": GAP, "resolve": RESOLVE}]
    if performance:
        width = SHORT_WIDE if len(performance) > 3 else WIDE
        bottom = holder.row(performance, width, SHORT_HIGH)
        rows.append({"concat": bottom, "columns": 4, "spacing": GAP, "resolve": RESOLVE})
    return rows


def _grid(holder: "_Holder", panels: Sequence[Panel], columns: int, wide: int, high: int) -> list[Spec]:
    rows = [panels[begin : begin + columns] for begin in range(0, len(panels), columns)]
    cells = [cell for row in rows for cell in holder.row(row, wide, high)]
    return [{"concat": cells, "columns": columns, "spacing": GAP, "resolve": RESOLVE}] if cells else []


class _Holder:
    """Collects what only the top of a specification may hold: parameters and data, under names that do not clash."""

    def __init__(self) -> None:
        self.params: list[Spec] = []
        self.datasets: dict[str, list[Row]] = {}
        self._count = 0

    def row(self, panels: Sequence[Panel | None], width: int, height: int) -> list[Spec]:
        """Return neighbours as views whose titles stand at one height."""
        most = max((_header(one, width) for one in panels if one is not None), default=0)
        return [_blank(width, height) if one is None else self.place(one, width, height, most) for one in panels]

    def place(self, panel: Panel, width: int, height: int, header: int = 0) -> Spec:
        """Return a panel as a view of fixed size."""
        fill = [" "] * (header - _header(panel, width))
        below = [*lines(_said(panel), width), *fill]
        title: Spec = {"text": panel.title, **({"subtitle": below} if below else {})}  # none takes the room of a line
        title |= {"subtitleColor": ALARM} if panel.alarm else {}
        if panel.empty is not None:
            return {**_sentence(panel.empty, width, height), "title": title}
        self._count += 1
        own = f"p{self._count}_"
        names = {one["name"]: f"{own}{one['name']}" for one in panel.spec.get("params", ())}
        names = {name: name if name in SHARED else new for name, new in names.items()}
        sizes = {"width": str(width), "height": str(height)}
        for one in panel.spec.get("params", ()):
            if names[one["name"]] not in {known["name"] for known in self.params}:
                self.params.append({**one, "name": names[one["name"]]})
        self.datasets |= {own + name: rows for name, rows in panel.datasets.items()}
        spec: Spec = _renamed({key: value for key, value in panel.spec.items() if key != "params"}, names | sizes, own)
        return {**spec, "width": width, "height": height, "title": title}


def _header(panel: Panel, width: int) -> int:
    """Lines between a panel's title and its plot: those of the note, and one for a legend above the plot."""
    return len(lines(_said(panel), width)) + ("'orient': 'top'" in str(panel.spec))


def _said(panel: Panel) -> str:
    """The panel's note, after what must be read first."""
    return " · ".join(part for part in (panel.alarm, panel.note) if part)


def _renamed(spec: Any, names: Mapping[str, str], own: str, key: str = "") -> Any:
    """A specification whose expressions use new names of parameters, and whose data have a prefix."""
    if isinstance(spec, Mapping):
        if key == "data" and "name" in spec:
            return {**spec, "name": own + spec["name"]}
        return {inner: _renamed(value, names, own, inner) for inner, value in spec.items()}
    if isinstance(spec, list):
        return [_renamed(value, names, own, key) for value in spec]
    if isinstance(spec, str) and key in ("expr", "labelExpr", "filter", "calculate"):
        return re.sub(r"(?<![.'\w])[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), spec)
    return spec


def lines(note: str, width: int) -> list[str]:
    """Break a note between its facts where it is wider than the panel; facts that are too long break at spaces."""
    room = int(width / LETTER)
    found: list[str] = []
    for fact in note.split(" · ") if note else []:
        if found and len(found[-1]) + len(fact) + 3 <= room:
            found[-1] += f" · {fact}"
        else:
            found += wrap(fact, room)
    return found


def _sentence(text: str, width: int, height: int) -> Spec:
    mark = {"type": "text", "text": wrap(text, int(width / 5.5)), "fontSize": 10, "align": "center", "lineHeight": 14}
    frame = {"stroke": "#8A8F98", "strokeOpacity": 0.35, "strokeDash": [3, 3]}
    return {"data": {"values": [{}]}, "mark": mark, "encoding": {}, "width": width, "height": height, "view": frame}


def _blank(width: int, height: int) -> Spec:
    return {"data": {"values": []}, "mark": "point", "encoding": {}, "width": width, "height": height}


def _heading(group: str, width: int) -> Spec:
    """A column's name and question over a thin line in its colour."""
    accent = ACCENTS[group]  # type: ignore[index]
    question = GROUPS[group]  # type: ignore[index]
    text = {"type": "text", "baseline": "bottom", "y": 12}
    name = {**text, "align": "left", "x": 0, "fontSize": 12, "fontWeight": 700, "text": group.upper(), "color": accent}
    asks = {**text, "align": "right", "x": width, "fontSize": 10, "text": question}
    ends = {"x": {"value": 0}, "x2": {"value": width}, "y": {"value": 17}}
    layers: list[Spec] = [{"mark": one, "encoding": {}} for one in (name, asks)]
    layers.append({"mark": {"type": "rule", "color": accent, "strokeWidth": 2}, "encoding": ends})
    return {"data": {"values": [{}]}, "width": width, "height": 18, "layer": layers}


def _key(runs: Sequence[tuple[str, str]], width: int) -> Spec:
    """One legend for all panels: the runs with their colours, in lines."""
    rows, x, y = [], 0.0, 8.0
    for name, colour in runs:
        label = name if len(name) <= 40 else name[:39] + "…"
        size = 24 + 6.0 * len(label)
        if x and x + size > width:
            x, y = 0.0, y + 16
        rows.append({"x": x, "y": y, "t": label, "c": colour})
        x += size
    place = {"x": {"field": "x", "type": "quantitative", "scale": None, "axis": None}}
    place["y"] = {"field": "y", "type": "quantitative", "scale": None, "axis": None}
    dot = {
        "mark": {"type": "square", "size": 90, "xOffset": 5, "opacity": 1},
        "encoding": {"color": {"field": "c", "scale": None}},
    }
    word = {
        "mark": {"type": "text", "align": "left", "xOffset": 14, "fontSize": 11},
        "encoding": {"text": {"field": "t"}},
    }
    return {"data": {"values": rows}, "encoding": place, "layer": [dot, word], "width": width, "height": y + 8}
