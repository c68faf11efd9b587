"""A panel's figure or numbers as a file."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cockpit import panels
from cockpit.core.errors import CockpitError
from cockpit.dashboard.api import coloured
from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.query import Query
from cockpit.panels.rows import exactly

FIGURES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
TABLES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
EVERYTHING = 1_000_000  # points of a series: no thinning


def figure(fleet: Fleet, query: Query) -> tuple[bytes, str, str]:
    """A panel as a picture: content, media type, file name."""
    from cockpit.plots.figure import figure as draw

    form = query.format or "png"
    if form not in FIGURES:
        raise CockpitError(f"format is {form!r}; give one of {', '.join(FIGURES)}")
    with fleet.reading(query.runs) as held:
        picture = draw(held, form, coloured(fleet, query), ids=[query.panel], theme=query.theme)
    return picture, FIGURES[form], f"{_known(query)}.{form}"


def data(fleet: Fleet, query: Query) -> tuple[bytes, str, str]:
    """The numbers a panel shows, without thinning or rounding: content, media type, file name."""
    form = query.format or "csv"
    if form not in TABLES:
        raise CockpitError(f"format is {form!r}; give one of {', '.join(TABLES)}")
    with fleet.reading(query.runs) as held, exactly():
        shown = panels.panel(held, query.panel, replace(query.view, points=EVERYTHING))
    text = json.dumps(shown.datasets, indent=1) if form == "json" else _csv(shown.datasets)
    return text.encode(), TABLES[form], f"{_known(query)}.{form}"


def _known(query: Query) -> str:
    """The panel's id, which is in use by now and so is safe in a file name."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in query.panel)[:80]


def _csv(datasets: Mapping[str, list[dict[str, Any]]]) -> str:
    """One table; where a panel has several, a first column says which."""
    columns = list(dict.fromkeys(key for rows in datasets.values() for row in rows for key in row))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["dataset", *columns])
    for name, rows in datasets.items():
        for row in rows:
            writer.writerow([name, *(_cell(row.get(column)) for column in columns)])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """A spreadsheet would run a text that begins like a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return json.dumps(value) if isinstance(value, dict | list) else value
