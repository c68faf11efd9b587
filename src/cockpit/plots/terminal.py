"""``cockpit show``: a run, or a list of runs, on the terminal or as JSON."""

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from math import isfinite
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cockpit.panels.rows import number
from cockpit.plots import sparkline
from cockpit.plots.console import console
from cockpit.plots.reading import Log, chosen, from_path
from cockpit.plots.show import STATES, as_json, changes, follow, show
from cockpit.plots.summary import summary
from cockpit.plots.text import printable, short
from cockpit.store import RunInfo
from cockpit.store.run import StoredRun

LINE = 16  # characters of a run's loss
COLUMNS = {"run": 0, "state": 0, "step": 34, "loss": 42, "curve": 70, "started": 56}  # and the width that shows them
NEAR = 24 * 3600.0  # seconds: a time of today needs no date


def present(given: Path | None, json: bool, keep_on: bool, everything: bool = False) -> None:
    """Print the run that is meant; ``keep_on``: until it ends or is interrupted, of several the newest.

    ``everything``: hidden runs, too.
    """
    screen, found = console(), chosen(given, everything)
    with suppress(KeyboardInterrupt):
        if isinstance(found, list) and keep_on:
            found = from_path(found[0].path)
        if isinstance(found, list):
            listing(found, screen, json)
        elif json:
            _as_json(found, keep_on)
        elif keep_on:
            follow(found, screen)
        else:
            show(found, screen)


def _as_json(run: StoredRun | Log, keep_on: bool) -> None:
    if not keep_on:
        print(as_json(summary(run), indent=2))
        return
    for facts in changes(run):
        print(as_json(facts), flush=True)


def listing(found: Sequence[RunInfo], screen: Console, json: bool = False) -> None:
    """Print several runs, newest first, one line each."""
    if json:
        print(as_json({"runs": [_entry(info) for info in found]}, indent=2))
        return
    ramp = sparkline.ASCII if screen.options.ascii_only else sparkline.BLOCKS
    shown = [heading for heading, needed in COLUMNS.items() if screen.width >= needed]
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in shown:
        right, wrapped = heading in ("step", "loss"), heading in ("run", "state")
        title = "" if heading == "curve" else heading
        table.add_column(title, justify="right" if right else "left", no_wrap=not wrapped, overflow="fold")
    for info in found:
        cells = _cells(info, ramp)
        table.add_row(*(cells[heading] for heading in shown))
    screen.print(table)
    screen.print("cockpit show RUN shows one of them.", style="dim")


def _cells(info: RunInfo, ramp: str) -> dict[str, str | Text]:
    state = Text(info.state, STATES.get(info.state, ""))
    if info.state == "unreadable":
        state.append(f": {printable(info.reason or '')}")
    if info.damaged and info.state != "unreadable":
        state.append(" damaged", "bold red")
    return {
        "run": Text(printable(info.id)),
        "state": state,
        "step": _step(info),
        "loss": _loss(info.loss),
        "curve": sparkline.curve(range(len(info.losses)), info.losses, range(len(info.losses)), LINE, ramp),
        "started": _when(info.started),
    }


def _loss(value: float | None) -> str | Text:
    if value is None:
        return ""
    return short(value) if isfinite(value) else Text(number(value), "bold red")


def _entry(info: RunInfo) -> dict[str, object]:
    keys = ("id", "name", "state", "reason", "started", "updated", "last_step", "reached", "step", "steps", "loss")
    facts = {"path": str(info.path), **{key: getattr(info, key) for key in keys}}
    return {**facts, "damaged": info.damaged}


def _step(info: RunInfo) -> str:
    if info.step is None:
        return ""
    return f"{info.step:,}" + (f" of {info.steps:,}" if info.steps else "")


def _when(started: float | None) -> str:
    if started is None:
        return ""
    return f"{datetime.fromtimestamp(started):{'%H:%M' if abs(time.time() - started) < NEAR else '%Y-%m-%d %H:%M'}}"
