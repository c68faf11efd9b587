"""Runs in columns side by side: every instrument on the same axes, else the eye compares the wrong thing."""

from dataclasses import replace

from cockpit.panels import Panel
from cockpit.panels.runs import Runs
from cockpit.panels.screen import DECK, first_page


def side_by_side(runs: Runs) -> list[list[Panel]]:
    """The first page of the deck for each run."""
    together = [draw(runs) for draw in DECK.values()]
    return [
        [_column(own, over, label) for own, over in zip(first_page(runs.only(place)), together, strict=True)]
        for place, label in enumerate(runs.labels)
    ]


def _column(own: Panel, together: Panel, label: str) -> Panel:
    """Lines over steps are taken from the picture of all runs, without the others: its axes are common to all."""
    if own.empty or not together.steps or "lines" not in together.datasets:
        return own
    rows = {name: [row for row in rows if row.get("run", label) == label] for name, rows in together.datasets.items()}
    return replace(own, spec=together.spec, datasets=rows)
