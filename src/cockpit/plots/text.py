"""The deck as text: one line for each quantity, in three groups and the performance below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, JustifyMethod
from rich.table import Table
from rich.text import Text

from cockpit.core.record import percent
from cockpit.core.source import Source, Steps
from cockpit.plots import sparkline
from cockpit.plots.deck import Group, Row, deck

COLOURS = {"step size": "blue", "gradients": "yellow", "curvature": "green", "performance": "bold"}
HEADINGS = ("", "", "first", "median", "last", "over steps")
LINE = 5  # the place of the sparkline among them
FITTING = (range(6), (0, 2, 3, 4, 5), (0, 4, 5), (0, 4))  # columns to show, the first of these that the terminal holds
NARROW, WIDE = 12, 60  # characters of a sparkline
NAME, SHORTEST = 24, 4  # characters of a name
EDGES = 1  # and the edges of a table: one character more than the spaces after its columns


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
        drawn = sparkline.curve(row.steps, row.values, self.axis, self.width, self.ramp, self.log_steps)
        return drawn[: self._columns(int(row.steps[-1]))] if row.over and drawn else drawn

    def _columns(self, step: int) -> int:
        """How many columns of a line lie before or at a step."""
        begin, end, at = (float(one) for one in (self.axis[0], self.axis[-1], step))
        if self.log_steps:
            begin, end, at = 0.0, float(np.log1p(end - begin)), float(np.log1p(at - begin))
        width = min(self.width, len(self.axis))
        return max(int(np.ceil((at - begin) / max(end - begin, 1e-9) * width)), 1)


def write(console: Console, title: str, source: Source, log_steps: bool = False) -> None:
    """Print a heading, the table, and what was undefined and why."""
    groups = deck(source)
    steps = recorded_steps(groups)
    if not len(steps):
        console.print(f"{title}: no step has been tracked yet", markup=False, highlight=False)
        return
    seen = f"{len(steps)} step{'s' * (len(steps) > 1)} recorded, {steps[0]} to {steps[-1]}"
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
    widths = _widths(groups, options.max_width)
    ramp = sparkline.ASCII if options.ascii_only else sparkline.BLOCKS
    frame = None if tight else box.SIMPLE
    whole = sum(widths.values()) + len(widths) + EDGES
    made = Table(box=frame, pad_edge=False, padding=(0, 1, 0, 0) if tight else 0, width=whole)
    for place, width in widths.items():
        side: JustifyMethod = "right" if HEADINGS[place] and place != LINE else "left"
        made.add_column(HEADINGS[place], justify=side, no_wrap=True, width=width, overflow="crop")
    pen = Pen(recorded_steps(groups), widths.get(LINE, 0), ramp, log_steps)
    for group in groups:
        _add(made, group, pen, widths)
    return made


def _widths(groups: Sequence[Group], room: int) -> dict[int, int]:
    """Which columns to show, and how wide: a narrow terminal gets fewer, and in the end shorter names."""
    cells = [[_clip(row.name), row.reading, *_numbers(row)] for group in groups for row in group.rows]
    needed = [max(map(cell_len, column)) for column in zip(HEADINGS[:LINE], *cells, strict=True)]
    needed[0] = max(needed[0], *(len(group.title) for group in groups))
    needed.append(NARROW)
    for shown in FITTING:
        spare = room - sum(needed[place] for place in shown) - len(shown) - EDGES
        if spare >= 0:
            break
    widths = {place: needed[place] for place in shown}
    widths[0] = max(SHORTEST, widths[0] + min(0, spare))
    if LINE in widths:
        widths[LINE] = min(WIDE, NARROW + max(0, spare))
    return widths


def undefined(groups: Sequence[Group]) -> list[str]:
    """One sentence for each share of the model, and for each reason: which quantities, at how many steps."""
    found: dict[str, list[str]] = {}
    for group in groups:
        for row in group.rows:
            for reason, steps in row.undefined.items():
                found.setdefault(printable(reason), []).append(f"{printable(row.name)} {_at(steps)}")
    return _partial(groups) + [f"Undefined: {', '.join(names)}: {reason}." for reason, names in found.items()]


def _partial(groups: Sequence[Group]) -> list[str]:
    """One sentence for each part of the model or of the samples that values are of."""
    found: dict[str, list[str]] = {}
    for row in (row for group in groups for row in group.rows):
        if row.covered < 1:
            found.setdefault(f"Of {percent(row.covered)} of all elements only", []).append(printable(row.name))
        if row.process is not None:
            found.setdefault(f"Of the samples of {printable(row.process)}", []).append(printable(row.name))
    return [f"{part}: {', '.join(names)}." for part, names in found.items()]


def short(value: float) -> str:
    """Three digits, or a whole number."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _at(steps: Sequence[int]) -> str:
    return f"at step {steps[0]}" if len(steps) == 1 else f"at {len(steps)} steps"


def _add(made: Table, group: Group, pen: Pen, widths: Mapping[int, int]) -> None:
    style = COLOURS[group.title]
    question = group.question if len(group.question) <= pen.width else ""  # half a sentence says nothing
    heading: list[str | Text] = [Text(group.title.upper(), style), "", "", "", "", Text(question, "dim")]
    made.add_section()
    made.add_row(*(heading[place] for place in widths))
    for row in group.rows:
        line = Text(pen.line(row) if pen.width else "", style)
        cells: list[str | Text] = [Text(_clip(row.name, widths[0])), Text(row.reading, "dim"), *_numbers(row), line]
        made.add_row(*(cells[place] for place in widths))


def printable(name: str) -> str:
    """Without what would move the cursor or change colours."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _clip(name: str, width: int = NAME) -> str:
    shown = printable(name)
    if cell_len(shown) <= min(width, NAME):
        return shown
    dots = "..."[: max(0, width - SHORTEST)]
    return set_cell_size(shown, min(width, NAME) - len(dots)).rstrip() + dots


def _numbers(row: Row) -> list[str]:
    if not len(row.values):
        return ["", "", "undefined"]
    finite = row.values[np.isfinite(row.values)]
    known = row.values[~np.isnan(row.values)]  # of infinities alone the median is one of them, or nothing
    odd = known[0] if len(known) and (known == known[0]).all() else nan
    middle = np.median(finite) if len(finite) else odd
    said = [short(float(value)) for value in (row.values[0], middle, row.values[-1])]
    return [*said[:2], "undefined"] if row.over else said
