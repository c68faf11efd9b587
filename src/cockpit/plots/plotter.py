"""CockpitPlotter: the deck of a log, for now as text in the terminal."""

from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cockpit.core.errors import CockpitError
from cockpit.plots import sparkline
from cockpit.plots.deck import Group, Row, deck
from cockpit.plots.log import Steps, locate, read

COLOURS = {"step size": "blue", "gradients": "yellow", "curvature": "green", "performance": "bold"}
HEADINGS = ("", "", "first", "median", "last")
NARROW, WIDE = 12, 30  # characters of a sparkline
FILE_WIDTH = 80


class CockpitPlotter:
    """Show what was measured: three groups (step size, gradients, curvature) and the performance below."""

    def __init__(self, secondary_screen: bool = False) -> None:
        """Make a plotter.

        Args:
            secondary_screen: Accepted for compatibility; all that was measured is always shown.
        """

    def plot(
        self,
        source: Any,
        savedir: str | Path | None = None,
        show_plot: bool = True,
        save_plot: bool = False,
        savename_append: str | None = None,
        block: bool = False,
        show_log_iter: bool = False,
        discard: int | None = None,
        plot_title: str | None = None,
        debug: bool = False,
    ) -> None:
        """Print the deck, or write it to a text file.

        Args:
            source: The path of a log with or without ``.json``, a run folder, the log's dictionary, or an object with
                ``get_output()``.
            savedir: Folder for the text file; None: beside the log.
            show_plot: Print the deck.
            save_plot: Write the deck to ``<name of the log>.txt``.
            savename_append: Appended to the name of the text file.
            block: Accepted for compatibility; text never blocks.
            show_log_iter: Draw the curves over the logarithm of the step.
            discard: Leave out what was recorded after this step.
            plot_title: Heading; None: the name of the log.
            debug: Accepted for compatibility.
        """
        steps = {step: values for step, values in read(source).items() if discard is None or step <= discard}
        title = _name(source) if plot_title is None else plot_title
        if save_plot:
            target, paper = _target(source, savedir, savename_append), StringIO()
            _print(Console(file=paper, width=FILE_WIDTH, color_system=None), title, steps, show_log_iter)
            target.write_text(paper.getvalue(), encoding="utf-8")
        if show_plot:
            _print(Console(), title, steps, show_log_iter)


def _print(console: Console, title: str, steps: Steps, log_steps: bool) -> None:
    groups = deck(steps)
    if not groups:
        console.print(f"{title}: no step has been tracked yet", markup=False, highlight=False)
        return
    seen = f"{len(steps)} steps recorded, {min(steps)} to {max(steps)}"
    console.print(f"{title}: {seen}", markup=False, highlight=False)
    cells = [[row.name, row.reading, *_numbers(row)] for group in groups for row in group.rows]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *cells, strict=True)]
    widths[0] = max(widths[0], *(len(group.title) for group in groups))
    rest = sum(widths) + len(widths) + 2  # and a space after each, and the edges
    line = max(NARROW, min(WIDE, console.width - rest))
    ramp = sparkline.ASCII if console.options.ascii_only else sparkline.BLOCKS
    table = Table(box=box.SIMPLE, pad_edge=False, padding=0)
    for heading, width in zip(HEADINGS, widths, strict=True):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True, width=width, overflow="crop")
    table.add_column("over steps", no_wrap=True, width=line, overflow="crop")
    for group in groups:
        _add(table, group, Pen(list(steps), line, ramp, log_steps))
    console.print(table, width=rest + line, crop=False)
    missing = [f"{row.name} {row.undefined}" for group in groups for row in group.rows if row.undefined]
    if missing:
        console.print(f"Undefined at some steps: {', '.join(missing)}.", markup=False, highlight=False)


@dataclass(frozen=True, slots=True)
class Pen:
    """How lines are drawn: over which steps, how wide, with which characters."""

    axis: list[int]
    width: int
    ramp: str
    log_steps: bool

    def line(self, row: Row) -> str:
        """Draw a histogram's last counts, or the course of anything else."""
        if row.counts is not None:
            low, high = (f"{limit:g}" for limit in row.limits)
            return f"{low} {sparkline.bars(row.counts, self.width - len(low) - len(high) - 2, self.ramp)} {high}"
        return sparkline.curve(row.steps, row.values, self.axis, self.width, self.ramp, self.log_steps)


def _add(table: Table, group: Group, pen: Pen) -> None:
    style = COLOURS[group.title]
    table.add_section()
    table.add_row(Text(group.title.upper(), style), "", "", "", "", Text(group.question, "dim"))
    for row in group.rows:
        table.add_row(Text(row.name), Text(row.reading, "dim"), *_numbers(row), Text(pen.line(row), style))


def _numbers(row: Row) -> list[str]:
    if not row.values:
        return ["", "", "undefined"]
    return [_short(value) for value in (row.values[0], median(row.values), row.values[-1])]


def _short(value: float) -> str:
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _name(source: Any) -> str:
    return Path(source).name.removesuffix(".json") if isinstance(source, str | Path) else "cockpit"


def _target(source: Any, savedir: str | Path | None, append: str | None) -> Path:
    if savedir is None and not isinstance(source, str | Path):
        raise CockpitError("save_plot=True without a place; give savedir=, the folder for the text file")
    folder = Path(savedir) if savedir is not None else locate(source).parent
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{_name(source)}{append or ''}.txt"
