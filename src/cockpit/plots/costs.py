"""What watching costs, as a small table in the terminal."""

from rich.console import ConsoleOptions
from rich.table import Table
from rich.text import Text

from cockpit.core.ledger import Ledger, TierCost
from cockpit.plots.text import printable, short

HEADINGS = ("COST", "steps", "every", "ms each", "of the cost")
FITTING = (range(5), (0, 1, 3, 4), (0, 3, 4), (0, 3))  # columns to show, the first of these that the terminal holds
GAP = 2  # spaces between them


def table(found: Ledger, options: ConsoleOptions) -> Table:
    """Build a row for each tier that was tracked; without rows where nothing is known."""
    rows = [_cells(tier, found) for tier in found.tiers if tier.tracked]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    for shown in FITTING:
        if sum(widths[place] + GAP for place in shown) - GAP <= options.max_width:
            break
    made = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for place in shown:
        made.add_column(justify="right" if place else "left", no_wrap=True, overflow="crop")
    if rows:
        made.add_row(*(Text(HEADINGS[place], "dim") for place in shown))
    for cells in rows:
        made.add_row(*(Text(cells[place]) for place in shown))
    return made


def _cells(tier: TierCost, found: Ledger) -> list[str]:
    whole = sum(one.seconds for one in found.tiers)
    share = f"{tier.seconds / whole:.0%}" if whole > 0 else ""
    every = f"{tier.interval:.0f}" if tier.interval is not None else ""
    return [
        printable(tier.name),
        f"{tier.tracked:,}",
        every,
        "" if tier.mean is None else short(1e3 * tier.mean),
        share,
    ]
