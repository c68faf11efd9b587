"""A panel's figure or numbers as a file."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from cockpit import panels
from cockpit.core.errors import CockpitError
from cockpit.dashboard import numbers
from cockpit.dashboard.api import coloured
from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.query import Query
from cockpit.panels.runs import Runs
from cockpit.plots.artist import Artist
from cockpit.plots.figure import legend, render
from cockpit.plots.layout import page
from cockpit.store.run import StoredRun

SCALE = 2.0  # pixels of a PNG for each point
FIGURES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
TABLES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def figure(artist: Artist, fleet: Fleet, query: Query) -> tuple[bytes, str, str]:
    """A panel as a picture: content, media type, file name; drawn in another process, this one keeps answering."""
    form = query.format or "png"
    if form not in FIGURES:
        raise CockpitError(f"format is {form!r}; give one of {', '.join(FIGURES)}")
    with fleet.reading(query.runs) as held:
        view = coloured(fleet, query)
        spec = page([panels.panel(held, query.panel, view)], "", legend(Runs(held, view)))
    return artist.call(render, spec, form, query.theme, SCALE), FIGURES[form], _file_name(query, held, form)


def data(fleet: Fleet, query: Query) -> tuple[bytes, str, str]:
    """The numbers behind a panel, without thinning or rounding: content, media type, file name."""
    form = query.format or "csv"
    if form not in TABLES:
        raise CockpitError(f"format is {form!r}; give one of {', '.join(TABLES)}")
    with fleet.reading(query.runs) as held:
        shown = panels.panel(held, query.panel, query.view)
        labels = _labels([run.name for run in held], list(dict.fromkeys(query.runs)))
        found = list(numbers.rows(shown, held, labels, query.view))
    text = json.dumps({"panel": shown.id, "title": shown.title, "rows": found}) if form == "json" else _csv(found)
    return text.encode(errors="replace"), TABLES[form], _file_name(query, held, form)


def _labels(names: list[str], idents: list[str]) -> list[str]:
    """Names, with the path where two runs share one."""
    return [f"{name} ({ident})" if names.count(name) > 1 else name for name, ident in zip(names, idents, strict=True)]


def _file_name(query: Query, held: Sequence[StoredRun], form: str) -> str:
    """The panel, after the run where it is one; any other letter than those safe in a file name is replaced."""
    whole = f"{held[0].name}-{query.panel}" if len(held) == 1 else query.panel
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in whole)
    return f"{plain.strip('-')[-80:] or 'panel'}.{form}"


def _csv(found: list[dict[str, Any]]) -> str:
    columns = numbers.columns(found) or ["run", "quantity", "step", "value"]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    for row in found:
        writer.writerow([_cell(row.get(column)) for column in columns])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """A spreadsheet would run a text that begins like a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") and value != "-inf":
        return "'" + value
    return value
