"""``cockpit show``: a run, or a list of runs, on the terminal or as JSON."""

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cockpit.plots import sparkline
from cockpit.plots.reading import Log, chosen
from cockpit.plots.show import STATES, as_json, changes, follow, show
from cockpit.plots.summary import summary
from cockpit.plots.text import printable, short
from cockpit.store import RunInfo
from cockpit.store.run import StoredRun

LINE = 16  # characters of a run's loss
NEAR = 24 * 3600.0  # seconds: a time of today needs no date


def present(given: Path | None, json: bool, keep_on: bool) -> None:
    """Print the run that is meant; ``keep_on``: until it ends or is interrupted."""
    console, found = Console(), chosen(given)
    with suppress(KeyboardInterrupt):
        if isinstance(found, list):
            listing(found, console, json)
        elif json:
            _as_json(found, keep_on)
        elif keep_on:
            follow(found, console)
        else:
            show(found, console)


def _as_json(run: StoredRun | Log, keep_on: bool) -> None:
    if not keep_on:
        print(as_json(summary(run), indent=2))
        return
    for facts in changes(run):
        print(as_json(facts), flush=True)


def listing(found: Sequence[RunInfo], console: Console, json: bool = False) -> None:
    """Print several runs, newest first, one line each."""
    if json:
        print(as_json({"runs": [_entry(info) for info in found]}, indent=2))
        return
    ramp = sparkline.ASCII if console.options.ascii_only else sparkline.BLOCKS
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("run", "state", "step", "loss", "", "started"):
        table.add_column(heading, justify="right" if heading in ("step", "loss") else "left", no_wrap=heading != "run")
    for info in found:
        curve = sparkline.curve(range(len(info.losses)), info.losses, range(len(info.losses)), LINE, ramp)
        loss = "" if info.loss is None else short(info.loss)
        state = Text(info.state, STATES.get(info.state, ""))
        table.add_row(Text(printable(info.id)), state, _step(info), loss, curve, _when(info.started))
    console.print(table)
    console.print("cockpit show RUN shows one of them.", style="dim")


def _entry(info: RunInfo) -> dict[str, object]:
    keys = ("id", "name", "state", "reason", "started", "updated", "last_step", "reached", "steps", "loss")
    return {"path": str(info.path), **{key: getattr(info, key) for key in keys}}


def _step(info: RunInfo) -> str:
    if info.reached is None:
        return ""
    return f"{info.reached:,}" + (f" of {info.steps:,}" if info.steps else "")


def _when(started: float | None) -> str:
    if started is None:
        return ""
    return f"{datetime.fromtimestamp(started):{'%H:%M' if abs(time.time() - started) < NEAR else '%Y-%m-%d %H:%M'}}"
