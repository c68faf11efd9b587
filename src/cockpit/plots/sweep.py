"""A sweep's report as one page that holds all it shows: tables, drawings, settings; no script, light and dark."""

import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

from cockpit.panels import Panel
from cockpit.panels.theme import config
from cockpit.plots.bench import HIGH
from cockpit.plots.figure import converter
from cockpit.plots.sweep_panels import AGAINST, CURVES, MATRICES, SIDE_BY_SIDE, VERDICTS, Drawing, drawings
from cockpit.results.sweeps import sheets
from cockpit.results.sweeps.formats import sections
from cockpit.results.sweeps.report import Report
from cockpit.results.sweeps.sheets import Entry, Sheet

ORDER = (
    *("Performance", VERDICTS, MATRICES, "What tuning and schedules give", SIDE_BY_SIDE),
    *(AGAINST, "Stability", "Settings", CURVES, "Other sweeps"),
)
OPEN = ("Performance", VERDICTS)
LONG = 60  # rows of tables that are shown after a click
DRAWN = (AGAINST,)  # parts whose tables are shown after a click, as they are drawn
_SAID = re.compile(r" (font-family=\"[^\"]*\"|opacity=\"1\"|pointer-events=\"none\")")  # by the page, or anyway
_DIGITS = re.compile(r"(\d\.\d\d)\d+")  # of places in a drawing, more than anyone sees
HEAD = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'


def page(report: Report, published: bool = False) -> str:
    """The page.

    Args:
        report: The sweep.
        published: Whether the published study's figures stand beside.
    """
    parts = list(_parts(report, published))
    links = "".join(f'<a href="#{anchor}">{escape(heading)}</a>' for heading, anchor, _ in parts)
    body = "".join(
        f'<section id="{anchor}"><h2>{escape(heading)}</h2>{text}</section>' for heading, anchor, text in parts
    )
    style = (files("cockpit.plots") / "sweep.css").read_text(encoding="utf-8")
    name = escape(report.plan.name)
    said = "".join(f"<li>{escape(fact)}</li>" for fact in (*_asked(report), *sheets.facts(report)))
    header = f'<header><h1>{name}</h1><ul class="facts">{said}</ul><nav>{links}</nav></header>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{HEAD}<title>{name}</title><style>{style}</style></head>'
        f"<body>{header}<main>{body}</main></body></html>\n"
    )


def _parts(report: Report, published: bool) -> Iterator[tuple[str, str, str]]:
    """Heading, anchor and content of each part that has something to say."""
    look, drawn = _Look(), drawings(report)
    tables = dict(sections(report, published))
    for heading in ORDER:
        held = f'<div class="sheets">{"".join(map(_table, tables[heading]))}</div>' if heading in tables else ""
        shown = "".join(look.shown(one) for one in drawn if one.heading == heading)
        rows = sum(len(sheet.rows) for sheet in tables.get(heading, ()))
        if heading in DRAWN and shown:
            held = _folded("As a table", held)
        elif rows > LONG and heading not in OPEN:
            held = _folded(f"All {rows} of them", held)
        text = held + shown if heading in OPEN else shown + held
        text += _commands(report) if heading == "Settings" and text else ""
        if text:
            yield heading, "".join(letter for letter in heading.lower() if letter.isalnum()), text


def _asked(report: Report) -> list[str]:
    plan = report.plan
    said = f"{sheets.counted(len(plan.problems), 'problem')}, {sheets.counted(len(plan.optimizers), 'optimizer')}; "
    said += f"budgets {', '.join(plan.budgets)}; schedules {', '.join(plan.schedules)}"
    seeds = f"search {plan.search}, tuned with seed {' and '.join(map(str, plan.seed))}; {plan.seeds} seeds a cell"
    return [said, seeds, *([f"protocol {plan.protocol}"] if plan.protocol else [])]


def _table(sheet: Sheet) -> str:
    head = "".join(f"<th{_class(place < sheet.words)}>{escape(title)}</th>" for place, title in enumerate(sheet.header))
    rows = "".join(
        f"<tr>{''.join(_cell(one, place < sheet.words) for place, one in enumerate(row))}</tr>" for row in sheet.rows
    )
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in sheet.notes)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="sheet"><h3>{escape(sheet.title)}</h3><div class="scroll">{table}</div>{notes}</div>'


def _class(word: bool) -> str:
    return ' class="w"' if word else ""


def _cell(one: Entry, word: bool) -> str:
    shade = "" if one.grade is None else f' style="--g:{one.grade / 100:.2f}"'
    kinds = {"w": word, "g": one.grade is not None, "best": one.best}
    kind = " ".join(name for name, is_so in kinds.items() if is_so)
    return f"<td{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}{shade}>{escape(one.text)}</td>"


def _commands(report: Report) -> str:
    """What trains each setting alone."""
    lines = dict.fromkeys(one.command for one in report.winners)
    text = escape("\n".join(lines))
    return _folded(f"The commands that train each of them alone ({len(lines)})", f"<pre>{text}</pre>")


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{body}</details>" if body else ""


class _Look:
    """Draws panels with colours that follow the page's theme."""

    def __init__(self) -> None:
        self._converter = converter()
        self._config = config("light") | {"aria": False}  # each mark would say what it is, at ten times the size
        legend, axis = self._config["legend"], self._config["axis"]
        self._config["text"] = {**self._config["text"], "color": legend["labelColor"]}  # it stands on colours
        self._colours = {
            **{legend["labelColor"]: "var(--ink)", axis["labelColor"]: "var(--soft)", axis["gridColor"]: "var(--grid)"}
        }

    def shown(self, drawing: Drawing) -> str:
        """All panels of a drawing, after a click where it says so."""
        cards = "".join(self._card(panel, drawing) for panel in drawing.panels)
        grid = f'<div class="grid {drawing.size}">{cards}</div>'
        return _folded(drawing.folded, grid) if drawing.folded else grid

    def _card(self, panel: Panel, drawing: Drawing) -> str:
        """A panel with its title, its note, and how to read it."""
        title = f'<figcaption title="{escape(panel.aid, quote=True)}">{escape(panel.title)}</figcaption>'
        note = f'<p class="note">{escape(panel.note)}</p>' if panel.note else ""
        if panel.empty is not None:
            return f'<figure>{title}<p class="empty">{escape(panel.empty)}</p></figure>'
        return f'<figure>{title}{note}<div class="scroll">{self._picture(panel, drawing)}</div></figure>'

    def _picture(self, panel: Panel, drawing: Drawing) -> str:
        spec = {**panel.spec, **_size(panel, drawing), "datasets": dict(panel.datasets), "autosize": {"type": "pad"}}
        text = str(self._converter.vegalite_to_svg(spec, config=self._config, allowed_base_urls=[]))
        for colour, name in self._colours.items():
            text = text.replace(colour.lower(), name).replace(colour, name)
        return _DIGITS.sub(r"\1", _SAID.sub("", text[text.index("<svg") :]))


def _size(panel: Panel, drawing: Drawing) -> dict[str, Any]:
    if drawing.size == "matrix":
        return {"width": {"step": 34}, "height": {"step": 19}}
    y = panel.spec["encoding"]["y"]
    if y["type"] == "nominal":
        return {"width": drawing.width, "height": 24 * len(y["scale"]["domain"])}
    return {"width": drawing.width, "height": HIGH if drawing.size == "small" else 300}
