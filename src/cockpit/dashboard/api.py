"""What the page asks for, as plain data: runs, decks, layers, details."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from cockpit import panels
from cockpit.core.errors import CockpitError
from cockpit.core.kinds import Kind
from cockpit.dashboard.differences import differences
from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.query import Query
from cockpit.panels import Panel, View
from cockpit.panels._base import GROUPS
from cockpit.panels.theme import config
from cockpit.store import RunInfo
from cockpit.store.run import StoredRun

Answer = dict[str, Any]


def runs(fleet: Fleet, query: Query) -> Answer:
    """All runs, newest first."""
    return {
        "folder": str(fleet.folder),
        "now": time.time(),
        "runs": [{**_listed(info), "colour": fleet.colour(info.id)} for info in fleet.listing()],
    }


def look(fleet: Fleet, query: Query) -> Answer:
    """Colours and type of the charts, light and dark."""
    return {"themes": {"light": config("light"), "dark": config("dark")}}


def deck(fleet: Fleet, query: Query) -> Answer:
    """The flight deck of the chosen runs; of a panel only what the page does not know yet."""
    with fleet.reading(_chosen(query)) as held:
        return {
            "now": time.time(),
            "runs": _heads(fleet, query, held),
            "groups": GROUPS,
            "panels": [_panel(panel, query) for panel in panels.deck(held, _coloured(fleet, query))],
        }


def panel(fleet: Fleet, query: Query) -> Answer:
    """One panel, large."""
    with fleet.reading(_chosen(query)) as held:
        shown = panels.panel(held, query.panel, _coloured(fleet, query))
        name = next((name for name in shown.names if name in _layered(held[:1])), "")
        beside = panels.layers(held[0], query.view, name)[:1] if name else []
        return {
            "name": name,
            "panels": [_panel(shown, query)],
            "beside": [_panel(one, query) for one in beside if one.id != shown.id],
        }


def layers(fleet: Fleet, query: Query) -> Answer:
    """A per-parameter quantity of one run, layer by layer."""
    with fleet.reading(_chosen(query)[:1]) as (run,):
        names = _layered([run])
        name = query.name if query.name in run.kinds else next(iter(names), "GradNorm")
        return {
            "now": time.time(),
            "runs": _heads(fleet, query, [run]),
            "layered": names,
            "name": name,
            "panels": [_panel(one, query) for one in panels.layers(run, query.view, name)],
        }


def details(fleet: Fleet, query: Query) -> Answer:
    """What is known about one run, what it covers, and what each instrument costs."""
    with fleet.reading(_chosen(query)[:1]) as (run,):
        return {
            "now": time.time(),
            "runs": _heads(fleet, query, [run]),
            "path": str(run.path),
            "damaged": run.damaged,
            "metadata": _safe({key: run.metadata[key] for key in run.metadata if key not in ("coverage", "cost")}),
            "coverage": str(run.metadata.get("coverage") or ""),
            "instruments": [_instrument(run, name) for name in run.kinds],
        }


def compare(fleet: Fleet, query: Query) -> Answer:
    """What differs between the chosen runs."""
    with fleet.reading(_chosen(query)) as held:
        return {"now": time.time(), "runs": _heads(fleet, query, held), "rows": _safe(differences(held))}


ANSWERS: dict[str, Callable[[Fleet, Query], Answer]] = {
    "runs": runs,
    "look": look,
    "deck": deck,
    "panel": panel,
    "layers": layers,
    "details": details,
    "compare": compare,
}


def _chosen(query: Query) -> tuple[str, ...]:
    if not query.runs:
        raise CockpitError("no run is chosen; give at least one as ?run=ID")
    return query.runs


def _coloured(fleet: Fleet, query: Query) -> View:
    """A run keeps its colour when others come and go."""
    return replace(query.view, colours=tuple(fleet.colour(ident) for ident in dict.fromkeys(query.runs)))


def _listed(info: RunInfo) -> Answer:
    return _safe(
        {
            "id": info.id,
            "name": info.name,
            "state": info.state,
            "reason": info.reason,
            "started": info.started,
            "updated": info.updated,
            "step": info.reached if info.reached is not None else info.last_step,
            "steps": info.steps,
            "loss": info.loss,
            "losses": list(info.losses),
            "lamps": [],
        }
    )


def _heads(fleet: Fleet, query: Query, held: Iterable[StoredRun]) -> list[Answer]:
    idents = dict.fromkeys(query.runs)
    return [{**_head(ident, run), "colour": fleet.colour(ident)} for ident, run in zip(idents, held, strict=False)]


def _head(ident: str, run: StoredRun) -> Answer:
    """What the top bar shows."""
    started = run.metadata.get("started")
    elapsed = max(run.updated - started, 0.0) if started is not None and run.updated is not None else None
    return _safe(
        {
            "id": ident,
            "name": run.name,
            "state": run.state,
            "reason": run.reason,
            "step": run.reached if run.reached is not None else run.last_step,
            "last": run.last_step,
            "steps": run.metadata.get("steps"),
            "started": started,
            "updated": run.updated,
            "elapsed": elapsed,
            "cost": _share(run, elapsed),
            "damaged": run.damaged,
            "lamps": [],
        }
    )


def _share(run: StoredRun, elapsed: float | None) -> float | None:
    """Part of the run's time that went into watching it."""
    spent = float(np.nansum(run.scalar("tracking_seconds").values))
    return min(spent / elapsed, 1.0) if elapsed and spent else None


def _layered(held: Iterable[StoredRun]) -> list[str]:
    """Quantities that can be shown layer by layer."""
    kinds = (Kind.PER_PARAMETER, Kind.HISTOGRAM)
    return list(dict.fromkeys(name for run in held for name, kind in run.kinds.items() if kind in kinds))


def _instrument(run: StoredRun, name: str) -> Answer:
    """What one instrument has given so far, and what it takes."""
    kind = run.kinds[name]
    steps = run.counted(name) if kind is Kind.HISTOGRAM else run.scalar(name).steps
    known = {one.get("name"): one for one in run.metadata.get("quantities") or () if isinstance(one, dict)}
    cost = run.metadata.get("cost") or {}
    seconds = (cost.get("seconds") or {}).get(name)
    tracked = cost.get("tracked")
    return _safe(
        {
            "name": name,
            "kind": kind.value,
            "level": known.get(name, {}).get("cost"),
            "values": len(steps),
            "last": int(steps[-1]) if len(steps) else None,
            "milliseconds": 1e3 * seconds / tracked if seconds is not None and tracked else None,
            "undefined": [
                {"reason": reason, "count": len(where), "first": where[0], "last": where[-1]}
                for reason, where in run.reasons(name).items()
            ],
        }
    )


def _panel(one: Panel, query: Query) -> Answer:
    """A panel; what changes with the data are its parameters and rows, and only these travel at an update."""
    params = {param["name"]: param["value"] for param in one.spec.get("params", ()) if "value" in param}
    fixed = [{key: param[key] for key in param if key != "value"} for param in one.spec.get("params", ())]
    spec, data = _mark({**one.spec, "params": fixed}), _mark([params, one.datasets])
    known = query.known.get(one.id, ("", ""))
    answer: Answer = {
        "id": one.id,
        "title": one.title,
        "group": one.group,
        "question": one.question,
        "aid": one.aid,
        "names": list(one.names),
        "steps": one.steps,
        "note": one.note,
        "empty": one.empty,
        "params": params,
        "marks": f"{spec}.{data}",
    }
    if spec != known[0]:
        answer["spec"] = one.spec
    if data != known[1] or spec != known[0]:
        answer["datasets"] = one.datasets
    return answer


def _mark(content: Any) -> str:
    return hashlib.blake2s(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()


def _safe(value: Any) -> Any:
    """Make JSON of it: a number that is not finite becomes None, anything odd its text."""
    if isinstance(value, dict):
        return {str(key): _safe(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)
