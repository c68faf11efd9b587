"""A table as text for a terminal, Markdown, CSV, JSON or LaTeX."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from cockpit.core.errors import unknown
from cockpit.core.plain import plain
from cockpit.results import latex
from cockpit.results.published import DRIFTING, IMPOSSIBLE
from cockpit.results.summary import rises
from cockpit.results.tables import MISSING, Cell, Table, shown, unit

_WORDS = ("problem", "optimizer", "hyperparameters")
MARKS = {DRIFTING: "*", IMPOSSIBLE: "**"}  # of published figures
_KEPT_WHOLE = ("problem", "optimizer", "speed", "seeds")


def text(found: Table, width: int | None = None) -> str:
    """The table for a terminal: per cent are test accuracies, all else are test losses."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for title in _header(found):
        side: Any = "left" if title in _WORDS else "right"
        grid.add_column(title, justify=side, no_wrap=title in _KEPT_WHOLE, overflow="fold")
    for place, one in _within_problems(found.listed):
        if place == 0 and grid.rows:
            grid.add_section()
        grid.add_row(*[_plain(value) for value in _row(found, one, place == 0)])
    out = io.StringIO()
    Console(file=out, width=width or 400, highlight=False, markup=False, emoji=False).print(grid)
    shown = "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n") + "\n"
    return shown + "".join(f"{note}\n" for note in _notes(found))


def markdown(found: Table) -> str:
    """The table as Markdown."""
    header = _header(found)
    rule = ["---" if title in _WORDS else "---:" for title in header]
    body = [[_marked(value) for value in _row(found, one)] for one in found.listed]
    shown = "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *body))
    return shown + "".join(f"\n{_marked(note)}\n" for note in _notes(found))


def _marked(value: str) -> str:
    """A text whose characters mean themselves in Markdown."""
    return _plain(value).replace("|", "\\|").replace("*", "\\*")


def as_csv(found: Table) -> str:
    """The table as CSV, with all digits."""
    names = ["problem", "optimizer", "metric", "performance", "std", "speed", "seeds", "diverged", "epochs", "schedule"]
    names.append("source")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    known = [f"published{of}" for of in ("", "_std", "_speed", "_table", "_caveat")] if found.published else []
    writer.writerow([*names, "hyperparameters", "variant", *known])
    for one in found.listed:
        values = [getattr(one, name) for name in names]
        row = ["" if isinstance(value, float) and math.isnan(value) else value for value in values]
        row += [json.dumps(held, default=str) for held in (one.hyperparameters, one.variant)]
        if found.published:
            other = one.published
            row += [other.mean, other.std, other.speed, other.table, other.caveat] if other else [""] * 5
        writer.writerow(row)
    return out.getvalue()


def as_json(found: Table) -> str:
    """The table as strict JSON: what does not exist is null."""
    dicts = [asdict(one) for one in found.listed]
    rows = plain([{key: one[key] for key in one if key != "mixed"} for one in dicts], lambda odd: None)
    return json.dumps({"mode": found.mode, "rows": rows}, indent=2, allow_nan=False) + "\n"


def as_latex(found: Table) -> str:
    """The table as a LaTeX document: optimizers side by side, coloured from red (worst of its row) to green."""
    if found.every is not None:
        rows = [_row(found, one, place == 0) for place, one in _within_problems(found.every)]
        return latex.list_document(_header(found), rows, _notes(found))
    body: list[list[latex.Shade]] = []
    labels: list[tuple[str, str]] = []
    for problem in found.problems:
        cells = [found.cells.get((problem, optimizer)) for optimizer in found.optimizers]
        metric = next((one.metric for one in cells if one), "test_loss")
        labels += [(problem, unit(metric)), ("", "speed (epochs)"), ("", "hyperparameters")]
        values = [one.performance if one else math.nan for one in cells]
        body.append(latex.shaded([_performance(one) for one in cells], values, rises(metric)))
        paces = [one.speed if one and one.speed <= one.epochs else math.nan for one in cells]  # never is no speed
        body.append(latex.shaded([one.pace if one else MISSING for one in cells], paces, up=False))
        body.append([(one.settings if one else MISSING, None) for one in cells])
    return latex.table_document(found.optimizers, labels, body, _notes(found))


def _within_problems(cells: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
    """Each cell with its place among those of its problem."""
    for _, held in groupby(cells, key=lambda one: one.problem):
        yield from enumerate(held)


FORMATS: dict[str, Callable[[Table], str]] = {
    **{"text": text, "markdown": markdown, "csv": as_csv, "json": as_json, "latex": as_latex}
}


def render(found: Table, format: str = "text") -> str:
    """The table in a format: ``"text"``, ``"markdown"``, ``"csv"``, ``"json"`` or ``"latex"``."""
    if format not in FORMATS:
        raise unknown("format of a table", format, FORMATS)
    return FORMATS[format](found)


def _header(found: Table) -> list[str]:
    measured = ["performance", "published", "speed", "published speed"] if found.published else ["performance", "speed"]
    return ["problem", "optimizer", *measured, "seeds", "hyperparameters"]


def _row(found: Table, one: Cell, named: bool = True) -> list[str]:
    measured = [_with_deviation(one), one.pace]
    if found.published:
        other = one.published
        known = f"{shown(one.metric, other.mean)} [{_where(one)}]" if other else MISSING
        pace = f"{other.speed:.1f}" if other and other.speed is not None else MISSING
        measured = [measured[0], known, one.pace, pace]
    return [one.problem if named else "", one.optimizer, *measured, str(one.seeds), one.settings]


def _where(one: Cell) -> str:
    """The table of a published figure, and how long was trained for it, if not as long as here."""
    other = one.published
    assert other is not None
    table = other.table + MARKS.get(other.caveat or "", "")
    return table if other.epochs == one.epochs else f"{table}, {other.epochs} epochs"


def _with_deviation(one: Cell) -> str:
    """Mean and standard deviation with the same decimals; per cent are marked."""
    sign = "%" if rises(one.metric) else ""
    if not math.isfinite(one.performance):
        return one.outcome
    if one.seeds < 2:
        return one.outcome + sign
    decimals = len(one.outcome.partition(".")[2]) if "e" not in one.outcome else 0
    value = (100 if rises(one.metric) else 1) * one.std
    deviation = f"{value:.{decimals}f}" if decimals and (value >= 0.5 * 10**-decimals or not value) else f"{value:.2g}"
    return f"{one.outcome} ± {deviation}{sign}"


def _performance(one: Cell | None) -> str:
    if one is None:
        return MISSING
    if one.published is None:
        return one.outcome
    longer = "" if one.published.epochs == one.epochs else f", {one.published.epochs} epochs"
    marked = shown(one.metric, one.published.mean) + MARKS.get(one.published.caveat or "", "")
    return f"{one.outcome} (published: {marked}{longer})"


def _notes(found: Table) -> list[str]:
    """What the marks in a table mean."""
    cells = [one.published for one in found.listed if one.published is not None]
    return [f"{MARKS[caveat]} {caveat}" for caveat in MARKS if any(one.caveat == caveat for one in cells)]


def _plain(value: str) -> str:
    return " ".join(value.split())
