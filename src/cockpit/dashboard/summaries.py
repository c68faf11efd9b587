"""All runs as rows of a table: how each ended, what was logged (last and best), and what it was started with."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cockpit.core.best import best, falls
from cockpit.core.finite import broken
from cockpit.core.kinds import Kind
from cockpit.core.source import Source
from cockpit.dashboard.differences import flat, spoken
from cockpit.panels._base import View
from cockpit.panels.metrics import logged
from cockpit.panels.runs import Runs
from cockpit.store import RunInfo

if TYPE_CHECKING:
    from cockpit.dashboard.fleet import Fleet

PATIENCE = 0.5  # seconds for one answer: what was not read by then follows in the next
METRICS, SETTINGS = 60, 120  # columns of one run, at most
KEPT = frozenset({"lr", "momentum", "weight_decay", "betas", "nesterov", "eps"})  # of an optimizer's settings

Row = dict[str, Any]


class Summaries:
    """Rows of runs, read once and again when a run has changed."""

    def __init__(self, fleet: "Fleet") -> None:
        self._fleet = fleet
        self._rows: dict[str, tuple[tuple[Any, ...], Row]] = {}

    def rows(self, patience: float = PATIENCE) -> tuple[list[Row], int]:
        """What is known about every listed run, newest first, and how many have yet to be read."""
        end, listed = time.monotonic() + patience, self._fleet.listing()
        found, waiting = [], 0
        for info in listed:
            mark = (info.updated, info.reached, info.state, info.name)
            known = self._rows.get(info.id)
            if known is None or known[0] != mark:
                if time.monotonic() < end:
                    known = self._rows[info.id] = mark, self._read(info)
                else:
                    waiting += 1
            found.append({**_listed(info), **(known[1] if known is not None else {}), "id": info.id})
        for gone in self._rows.keys() - {info.id for info in listed}:
            del self._rows[gone]
        return found, waiting

    def _read(self, info: RunInfo) -> Row:
        try:
            with self._fleet.reading([info.id]) as (run,):
                return {**metrics(run), "settings": settings(run.metadata), "broken": _broken(run)}
        except Exception as error:  # one run that cannot be read must not hide the others
            return {"problem": f"{type(error).__name__}: {error}"}


def metrics(run: Source) -> Row:
    """Last and best of the loss and of every number that was logged."""
    names = logged(Runs([run], View()))[:METRICS]
    return {"metrics": {name: _numbers(run, name) for name in ("Loss", *names) if name in run.kinds}}


def _numbers(run: Source, name: str) -> Row:
    series = run.scalar(name) if run.kinds[name] is Kind.SCALAR else None
    top = best(name, series) if series is not None else None
    last = float(series.values[-1]) if series is not None and len(series) else None
    return {
        "last": spoken(last),
        "best": top[1] if top is not None else None,
        "at": top[0] if top is not None else None,
        "falls": falls(name),
    }


def settings(metadata: Mapping[str, Any]) -> Row:
    """What the user set: the run's own configuration, then model and optimizer."""
    found: Row = dict(flat(metadata["config"])) if isinstance(metadata.get("config"), Mapping) else {}
    model, optimizers = metadata.get("model"), metadata.get("optimizers")
    if isinstance(model, Mapping):
        found |= {"model": model.get("class"), "parameters": model.get("elements")}
    for place, one in enumerate(optimizers if isinstance(optimizers, list) else []):
        if isinstance(one, Mapping):
            found |= _optimizer(one, "" if place == 0 else f"{place} ")
    return {key: value for key, value in list(found.items())[:SETTINGS] if key and value is not None}


def _optimizer(one: Mapping[str, Any], before: str) -> Row:
    groups = one.get("groups")
    first = groups[0] if isinstance(groups, list) and groups and isinstance(groups[0], Mapping) else {}
    chosen = {f"{before}optimizer {key}": value for key, value in first.items() if key in KEPT}
    said = {key: ", ".join(map(str, value)) if isinstance(value, list) else value for key, value in chosen.items()}
    return {f"{before}optimizer": one.get("class"), **said}


def _broken(run: Source) -> str | None:
    end = broken(run)
    return None if end is None else f"{end.word} since step {end.broken:,}"


def _listed(info: RunInfo) -> Row:
    duration = max(info.updated - info.started, 0.0) if info.started is not None else None
    return {
        "name": info.name,
        "state": info.state,
        "started": info.started,
        "duration": duration,
        "step": info.reached,
        "steps": info.steps,
        "hidden": info.hidden,
    }
