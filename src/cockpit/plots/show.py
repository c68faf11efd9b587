"""The state of a run in one screen, once or until it ends."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cockpit.core.errors import CockpitError
from cockpit.core.finite import broken
from cockpit.core.ledger import ledger
from cockpit.core.plain import plain
from cockpit.core.source import Source
from cockpit.core.spending import spending
from cockpit.plots import costs, text
from cockpit.plots.deck import LAST, Group, deck
from cockpit.plots.summary import UNFINISHED, summary
from cockpit.store.run import StoredRun

STATES = {
    "running": "bold green",
    "finished": "bold blue",
    "crashed": "bold red",
    "stale": "bold yellow",
    "unreadable": "bold red",
}
CLOCKS = ("updated", "elapsed", "cost")  # of the summary: they move though nothing happens
AROUND = 6  # lines above and below the table
PAUSE = 1.0  # seconds from one look to the next


class Growing(Source, Protocol):
    """A run that may still be written."""

    def refresh(self) -> bool:
        """Read what is new; whether anything is."""


class Screen:
    """A renderable: who and where, how far, at what cost, the deck, and what is undefined and why."""

    def __init__(self, run: Source) -> None:
        self.run = run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as the terminal is."""
        facts, groups = summary(self.run), _arranged(deck(self.run))
        about = list(_about(self.run, facts))
        yield _heading(self.run, facts)
        yield _progress(facts, options)
        for line in about:
            yield Text(line, "dim", overflow="fold")
        if not groups:
            yield Text("No step has been tracked yet.")
            return
        spent = costs.table(ledger(self.run.metadata), options)
        lines = len(about) + sum(len(group.rows) + 2 for group in groups) + AROUND + spent.row_count
        yield text.table(groups, options, tight=console.is_terminal and lines > options.size.height)
        if spent.row_count:
            yield spent
        for line in text.undefined(groups):
            yield Text(line, "dim", overflow="fold")


def _arranged(groups: list[Group]) -> list[Group]:
    """The performance first, where a small screen still shows it; without what the lines above it say."""
    last = [replace(group, rows=[row for row in group.rows if row.name not in LAST]) for group in groups[-1:]]
    return [group for group in (*last, *groups[:-1]) if group.rows]


def show(run: Source, console: Console) -> None:
    """Print the screen once."""
    console.print(Screen(run), crop=False)


def follow(run: Growing, console: Console, pause: Callable[[float], Any] = time.sleep) -> None:
    """Keep the screen current until the run ends; where nobody looks, print a line for each change."""
    if not console.is_terminal:
        for facts in changes(run, pause):
            console.print(line(facts), markup=False, highlight=False, soft_wrap=True)
        return
    with Live(Screen(run), console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for _ in looks(run, pause):
            live.refresh()


def looks(run: Growing, pause: Callable[[float], Any] = time.sleep) -> Iterator[dict[str, Any]]:
    """Yield the summary again and again, until the run ends or its folder is gone."""
    path = getattr(run, "path", None)
    while True:
        run.refresh()
        if path is not None and not (Path(path).is_file() or StoredRun.at(path)):
            raise CockpitError(f"{path} is gone: its folder was moved or deleted while it was followed")
        facts = summary(run)
        yield facts
        if facts["state"] not in UNFINISHED:
            return
        pause(PAUSE)


def changes(run: Growing, pause: Callable[[float], Any] = time.sleep) -> Iterator[dict[str, Any]]:
    """Yield the summary now, and whenever more than the clock has moved."""
    before: dict[str, Any] = {}
    for facts in looks(run, pause):
        news = {key: value for key, value in facts.items() if key not in CLOCKS}
        if news != before:
            yield facts
        before = news


def as_json(facts: dict[str, Any], indent: int | None = None) -> str:
    """The summary as JSON, on one line or indented; a number that is not finite is null."""
    return json.dumps(plain(facts, odd=lambda number: None), allow_nan=False, indent=indent)


def line(facts: dict[str, Any]) -> str:
    """The summary in one line."""
    return ", ".join([str(facts["name"]), str(facts["state"]), *told(facts)])


def told(facts: dict[str, Any]) -> list[str]:
    """How far the run is, what everybody watches, and the time."""
    parts = [_place(facts)]
    since = facts["quantities"].get("Loss", {}).get("not_finite_since")
    if since is not None:
        parts.append(f"loss not finite since step {since:,}")
    elif facts["loss"] is not None:
        parts.append(f"loss {text.short(facts['loss'])}")
    parts += [f"{name} {text.short(it['last'])}" for name, it in facts["metrics"].items() if it["last"] is not None]
    return parts + [part for part in (_timing(facts), facts["reason"]) if part]


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, as on a clock."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _heading(run: Source, facts: dict[str, Any]) -> Text:
    state = facts["state"] or "in memory"
    heading = Text.assemble((text.printable(facts["name"]), "bold"), "  ", (state.upper(), STATES.get(state, "bold")))
    if facts["reason"]:
        heading.append(f"  {text.printable(facts['reason'])}", "red" if state == "crashed" else "")
    if (end := broken(run)) is not None:
        heading.append(f"  {end.word} since step {end.broken:,}", "bold red")
    return heading


def _progress(facts: dict[str, Any], options: ConsoleOptions) -> Table | Text:
    said = ", ".join(part for part in (_place(facts), _timing(facts)) if part)
    total, done = facts["steps"], facts["step"]
    if not total or done is None:
        return Text(said)
    share = min(1.0, (done + 1) / total)
    grid = Table.grid(padding=(0, 1))
    width = max(10, min(40, options.max_width - len(said) - 8))
    grid.add_row(ProgressBar(1.0, share, width=width), f"{int(100 * share)}%", Text(said))
    return grid


def _place(facts: dict[str, Any]) -> str:
    if facts["step"] is None:
        return "no step yet"
    return f"step {facts['step']:,}" + (f" of {facts['steps']:,}" if facts["steps"] else "")


def _timing(facts: dict[str, Any]) -> str:
    seconds, step, total = facts["elapsed"], facts["step"], facts["steps"]
    if seconds is None:
        return ""
    parts = [f"{duration(seconds)} elapsed"]
    rate = (step + 1 - (facts["first"] or 0)) / seconds if step is not None and seconds else 0.0
    if rate and total and facts["state"] == "running":
        parts.append(f"{duration(max(0, total - step - 1) / rate)} left")
    elif rate:
        parts.append(f"{text.short(rate)} steps/s")
    return ", ".join(parts)


def _about(run: Source, facts: dict[str, Any]) -> Iterator[str]:
    meta = run.metadata
    what = [_model(meta), *map(_optimizer, meta.get("optimizers") or ()), meta.get("loss")]
    where = " on ".join(str(part) for part in (meta.get("device"), meta.get("host")) if part)
    started = meta.get("started")
    when = f"started {datetime.fromtimestamp(started):%Y-%m-%d %H:%M}" if isinstance(started, int | float) else None
    for parts in ([*what, where], [when, _git(meta), meta.get("command")], [_watching(run, facts)]):
        said = ", ".join(text.printable(str(part)) for part in parts if part)
        if said:
            yield said
    if facts["lost"]:
        yield f"{facts['lost']} record{'s were' if facts['lost'] > 1 else ' was'} lost: the disk was too slow or full"
    if facts["damaged"]:
        yield f"damaged: {facts['damaged']}"


def _model(meta: Any) -> str | None:
    model = meta.get("model") or {}
    elements = f" ({model['elements']:,} parameters)" if isinstance(model.get("elements"), int) else ""
    return f"{model['class']}{elements}" if "class" in model else None


def _optimizer(optimizer: Any) -> str:
    group = (optimizer.get("groups") or [{}])[0]
    shown = [f"{key} {group[key]:g}" for key in ("lr", "momentum") if isinstance(group.get(key), int | float)]
    return " ".join([str(optimizer.get("class", "optimizer")), *shown])


def _git(meta: Any) -> str | None:
    git = meta.get("git") or {}
    if not git.get("commit"):
        return None
    branch = f" on {git['branch']}" if git.get("branch") else ""
    return f"git {str(git['commit'])[:10]}{branch}{' with changes' if git.get('dirty') else ''}"


def _watching(run: Source, facts: dict[str, Any]) -> str | None:
    meta, spent = run.metadata, facts["cost"]
    tracked = f"{spent['tracked']:,} step{'' if spent['tracked'] == 1 else 's'} tracked" if spent["tracked"] else None
    share = spending(run).told or None
    size = (facts["quantities"].get("batch_size") or {}).get("last")
    batch = f"batches of {size:g}" if size is not None else None
    said = ", ".join(part for part in (meta.get("schedule"), tracked, share, batch) if part)
    return f"watched: {said}" if said else None
