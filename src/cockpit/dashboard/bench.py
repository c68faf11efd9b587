"""What the page shows of benchmark results: one problem at a time, own runs before what was imported."""

from collections.abc import Sequence
from typing import Any

from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.query import Query
from cockpit.plots.bench import panels
from cockpit.results.folder import find
from cockpit.results.result import Result
from cockpit.results.summary import Mode, rises
from cockpit.results.tables import Cell, by_problem, shown, table, unit

TITLES = ("optimizer", "performance", "± std", "epochs to the target", "seeds", "published", "settings")


def bench(fleet: Fleet, query: Query, panel: Any) -> dict[str, Any]:
    """Table and panels of a problem; ``panel`` writes a panel as the page reads it."""
    found = find(fleet.folder)
    problems = list(by_problem(found))
    chosen = query.problem if query.problem in problems else next(iter(problems), "")
    here = [one for one in found if one.problem == chosen]
    own = [one for one in here if one.source == "cockpit"]
    old = [one for one in here if one.source != "cockpit"]
    front, behind = (own, old) if own else (old, [])
    return {
        "problems": problems,
        "problem": chosen,
        "said": _said(found.problems, own, old),
        "titles": [_title(title, here) for title in TITLES],
        "rows": [*map(_row, _cells(own, "shared")), *map(_row, _cells(old, "shared"))],
        "panels": [panel(one, query) for one in panels(front, behind, chosen)] if here else [],
    }


def _cells(results: Sequence[Result], mode: Mode) -> list[Cell]:
    return list(table(results, mode=mode, published=True).cells.values()) if results else []


def _said(unreadable: Sequence[str], own: Sequence[Result], old: Sequence[Result]) -> str:
    counted = [_count(own, "run") if own else "", f"{len(old)} imported" if old else ""]
    counted.append(f"{_count(unreadable, 'file')} could not be read" if unreadable else "")
    return ", ".join(part for part in counted if part)


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}" if len(things) == 1 else f"{len(things)} {name}s"


def _title(title: str, here: Sequence[Result]) -> str:
    return f"{title}, {unit(here[0].metric)}" if title == "performance" and here else title


def _spread(cell: Cell) -> str:
    return f"{100 * cell.std:.2f}" if rises(cell.metric) else f"{cell.std:.2g}"


def _row(cell: Cell) -> list[str]:
    known = "" if cell.published is None else shown(cell.metric, cell.published.mean)
    if cell.published is not None and cell.published.epochs != cell.epochs:
        known += f" ({cell.published.epochs} epochs)"
    spread = _spread(cell) if cell.seeds > 1 and not cell.diverged else ""
    return [cell.optimizer, cell.outcome, spread, cell.pace, str(cell.seeds), known, cell.settings]
