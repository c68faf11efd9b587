"""A report as text for a terminal, CSV, LaTeX or JSON; as a page it is drawn by ``cockpit.plots.sweep``."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from cockpit.core.errors import unknown
from cockpit.core.plain import plain
from cockpit.results import latex
from cockpit.results.sweeps import sheets
from cockpit.results.sweeps.report import Report
from cockpit.results.sweeps.sheets import Entry, Sheet

WIDTH = 400  # where nobody looks at a terminal


def text(report: Report, published: bool = False, width: int | None = None) -> str:
    """Everything for a terminal: per cent are test accuracies, all else are test losses; a dot marks the best."""
    parts = [f"{report.plan.name}\n", *(f"{fact}\n" for fact in sheets.facts(report))]
    for heading, found in sections(report, published):
        parts.append(f"\n{heading}\n{'=' * len(heading)}\n")
        parts += [f"\n{sheet.title}\n{_grid(sheet, width)}" for sheet in found]
    return "".join(parts)


def as_csv(report: Report, published: bool = False) -> str:
    """A row for each cell, with all digits; hyperparameters, values and edges as JSON and words in one field."""
    commands = {_key(one.cell): one for one in report.winners}
    out = io.StringIO()
    writer = None
    for row in report.rows():
        winner = commands.get(_key_of(row))
        row |= {"edges": "; ".join(winner.edges) if winner else "", "command": winner.command if winner else ""}
        if not published:
            row = {name: value for name, value in row.items() if not name.startswith("published")}
        if writer is None:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(
            {name: json.dumps(held) if isinstance(held, list | dict) else held for name, held in row.items()}
        )
    return out.getvalue()


def as_latex(report: Report, published: bool = False) -> str:
    """All tables as one LaTeX document, coloured from red (worst of its column) to green."""
    parts = [(heading, sheet) for heading, part in sections(report, published) for sheet in part]
    tables = [
        latex.tabular(sheet.header, [[_shade(one) for one in row] for row in sheet.rows], sheet.words, sheet.notes)
        for _, sheet in parts
    ]
    return latex.tables_document([f"{heading}: {sheet.title}" for heading, sheet in parts], tables)


def as_json(report: Report, published: bool = False) -> str:
    """One strict JSON object; published figures are always in it."""
    return json.dumps(plain(report.plain(), lambda odd: None), allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Report, bool], str]] = {
    **{"text": text, "csv": as_csv, "latex": as_latex, "json": as_json}
}


def render(report: Report, format: str = "text", published: bool = False) -> str:
    """A report in a format: ``"text"``, ``"csv"``, ``"latex"`` or ``"json"``."""
    if format not in FORMATS:
        raise unknown("format of a report", format, FORMATS)
    return FORMATS[format](report, published)


def sections(report: Report, published: bool) -> Iterator[tuple[str, list[Sheet]]]:
    """The parts of a report in words and numbers, each with its heading; those with nothing to say are left out."""
    parts: list[tuple[str, list[Sheet | None]]] = [
        ("Performance", [sheets.performance(report, layout, published) for layout in sheets.layouts(report)]),
        ("Better, worse, or noise", [sheets.verdicts(report, layout) for layout in sheets.layouts(report)]),
        ("What tuning and schedules give", [sheets.usual(report)]),
        ("Several untuned optimizers, or tuning one", [*sheets.several(report)]),
        ("Stability", [sheets.retuned(report), sheets.tried(report)]),
        ("Settings", [sheets.winners(report)]),
        ("Other sweeps", [sheets.refused(report)]),
    ]
    for heading, found in parts:
        held = [sheet for sheet in found if sheet is not None and sheet.rows]
        if held:
            yield heading, held


def _grid(sheet: Sheet, width: int | None) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, title in enumerate(sheet.header):
        side: Any = "left" if place < sheet.words else "right"
        grid.add_column(title, justify=side, overflow="fold")
    for row in sheet.rows:
        grid.add_row(*(f"• {one.text}" if one.best else one.text for one in row))
    out = io.StringIO()
    Console(file=out, width=width or WIDTH, highlight=False, markup=False, emoji=False).print(grid)
    shown = "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n") + "\n"
    return shown + "".join(f"{note}\n" for note in sheet.notes)


def _field(held: Any) -> Any:
    return json.dumps(held) if isinstance(held, list | dict) else held


def _shade(one: Entry) -> latex.Shade:
    return one.text, one.grade


def _key(cell: Any) -> tuple[Any, ...]:
    return cell.problem, cell.optimizer, cell.budget, cell.schedule, cell.tuning_seed


def _key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("problem", "optimizer", "budget", "schedule", "tuning_seed"))
