"""The deck as text: one line for each quantity, in three groups and the performance below."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from cockpit.core.source import Source, Steps
from cockpit.plots import sparkline
from cockpit.plots.deck import Group, Row, deck

COLOURS = {"step size": "blue", "gradients": "yellow", "curvature": "green", "performance": "bold"}
HEADINGS = ("", "", "first", "median", "last")
NARROW, WIDE = 12, 60  # characters of a sparkline
NAME = 24  # characters of a name


@dataclass(frozen=True, slots=True)
class Pen:
    """How lines are drawn: over which steps, how wide, with which characters."""

    axis: Steps
    width: int
    ramp: str
    log_steps: bool

    def line(self, row: Row) -> str:
        """Draw a histogram's last counts, or the course of anything else."""
        if row.counted is not None:
            low, high = (f"{limit:g}" for limit in (row.counted.edges[0], row.counted.edges[-1]))
            bars = sparkline.bars(row.counted.counts, self.width - len(low) - len(high) - 2, self.ramp)
            return f"{low} {bars} {high}"
        return sparkline.curve(row.steps, row.values, self.axis, self.width, self.ramp, self.log_steps)


def write(console: Console, title: str, source: Source, log_steps: bool = False) -> None:
    """Print a heading, the table, and what was undefined and why."""
    groups = deck(source)
    steps = recorded_steps(groups)
    if not len(steps):
        console.print(f"{title}: no step has been tracked yet", markup=False, highlight=False)
        return
    seen = f"{len(steps)} steps recorded, {steps[0]} to {steps[-1]}"
    console.print(f"{title}: {seen}", markup=False, highlight=False)
    console.print(table(groups, console.options, log_steps), crop=False)
    for line in undefined(groups):
        console.print(line, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def recorded_steps(groups: Sequence[Group]) -> Steps:
    """All steps with a value or the reason of its absence."""
    rows = [row for group in groups for row in group.rows]
    parts = [row.steps for row in rows] + [np.array(some) for row in rows for some in row.undefined.values()]
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))


def table(groups: Sequence[Group], options: ConsoleOptions, log_steps: bool = False, tight: bool = False) -> Table:
    """Build the table, as wide as the terminal allows; ``tight``: without empty lines."""
    cells = [[_clip(row.name), row.reading, *_numbers(row)] for group in groups for row in group.rows]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *cells, strict=True)]
    widths[0] = max(widths[0], *(len(group.title) for group in groups))
    rest = sum(widths) + len(widths) + 2  # and a space after each, and the edges
    width = max(NARROW, min(WIDE, options.max_width - rest))
    ramp = sparkline.ASCII if options.ascii_only else sparkline.BLOCKS
    frame = None if tight else box.SIMPLE
    made = Table(box=frame, pad_edge=False, padding=(0, 1, 0, 0) if tight else 0, width=rest + width)
    for heading, column in zip(HEADINGS, widths, strict=True):
        made.add_column(heading, justify="right" if heading else "left", no_wrap=True, width=column, overflow="crop")
    made.add_column("over steps", no_wrap=True, width=width, overflow="crop")
    pen = Pen(recorded_steps(groups), width, ramp, log_steps)
    for group in groups:
        _add(made, group, pen)
    return made


def undefined(groups: Sequence[Group]) -> list[str]:
    """One sentence for each reason: which quantities, at how many steps."""
    found: dict[str, list[str]] = {}
    for group in groups:
        for row in group.rows:
            for reason, steps in row.undefined.items():
                found.setdefault(reason, []).append(f"{row.name} {_at(steps)}")
    return [f"Undefined: {', '.join(names)}: {reason}." for reason, names in found.items()]


def short(value: float) -> str:
    """Three digits, or a whole number."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _at(steps: Sequence[int]) -> str:
    return f"at step {steps[0]}" if len(steps) == 1 else f"at {len(steps)} steps"


def _add(made: Table, group: Group, pen: Pen) -> None:
    style = COLOURS[group.title]
    made.add_section()
    made.add_row(Text(group.title.upper(), style), "", "", "", "", Text(group.question, "dim"))
    for row in group.rows:
        made.add_row(Text(_clip(row.name)), Text(row.reading, "dim"), *_numbers(row), Text(pen.line(row), style))


def printable(name: str) -> str:
    """Without what would move the cursor or change colours."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _clip(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= NAME else f"{shown[: NAME - 3]}..."


def _numbers(row: Row) -> list[str]:
    if not len(row.values):
        return ["", "", "undefined"]
    finite = row.values[np.isfinite(row.values)]
    middle = np.median(finite) if len(finite) else nan
    return [short(float(value)) for value in (row.values[0], middle, row.values[-1])]
