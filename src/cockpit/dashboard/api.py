"""What the page asks for, as plain data: runs, decks, layers, details."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from unicodedata import bidirectional, category

import numpy as np

from cockpit import panels
from cockpit.core.errors import CockpitError
from cockpit.core.finite import broken
from cockpit.core.kinds import Kind
from cockpit.core.ledger import Ledger, ledger
from cockpit.core.spending import spending
from cockpit.dashboard.bench import bench
from cockpit.dashboard.columns import side_by_side
from cockpit.dashboard.differences import differences, spoken
from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.query import Query
from cockpit.dashboard.wire import Written, answer, dumps, mark
from cockpit.panels import Panel, View
from cockpit.panels._base import GROUPS
from cockpit.panels.runs import Runs
from cockpit.panels.screen import first_page
from cockpit.panels.theme import config
from cockpit.results.folder import holds
from cockpit.store import RunInfo
from cockpit.store.run import StoredRun

Answer = dict[str, Any]
UNSEEN = frozenset({"Cc", "Cs", "Zl", "Zp"})  # kinds of characters: control, half of a pair, line breaks
TURNS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})  # of the writing direction


def runs(fleet: Fleet, query: Query) -> Answer:
    """All runs, newest first; where there are none, whether there are results at least."""
    found = [{**_listed(info), "colour": fleet.colour(info.id)} for info in fleet.listing()]
    alone = not found and holds(fleet.folder)
    return {"folder": str(fleet.folder), "now": time.time(), "runs": found, "results_alone": alone}


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
            "panels": [_panel(one, query) for one in _shown(held, query, coloured(fleet, query))],
        }


def sides(fleet: Fleet, query: Query) -> Answer:
    """The decks of the chosen runs side by side, on the same axes."""
    with fleet.reading(_chosen(query)) as held:
        together = Runs(held, coloured(fleet, query))
        columns = [
            [_panel(one, query, f"{place}~{one.id}") for one in deck]
            for place, deck in enumerate(side_by_side(together))
        ]
        heads = _heads(fleet, query, held)
    return {
        "now": time.time(),
        "runs": heads,
        "columns": [
            Written(answer({"id": head["id"], "panels": column})) for head, column in zip(heads, columns, strict=True)
        ],
    }


def panel(fleet: Fleet, query: Query) -> Answer:
    """One panel, large."""
    with fleet.reading(_chosen(query)) as held:
        shown = panels.panel(held, query.panel, coloured(fleet, query))
        name = next((name for name in shown.names if name in _layered(held[:1])), "")
        beside = panels.layers(held[0], query.view, name)[:1] if name else []
        return {
            "now": time.time(),
            "runs": _heads(fleet, query, held),
            "name": name,
            "panels": [_panel(shown, query)],
            "beside": [_panel(one, query) for one in beside if one.id != shown.id],
        }


def layers(fleet: Fleet, query: Query) -> Answer:
    """A per-parameter quantity of one run, layer by layer."""
    with fleet.reading(_chosen(query)[:1]) as (run,):
        names = _layered([run])
        name = next((one for one in (query.name, "GradNorm", *names) if one in names), "")
        return {
            "now": time.time(),
            "runs": _heads(fleet, query, [run]),
            "layered": names,
            "name": name,
            "panels": [_panel(one, query) for one in panels.layers(run, query.view, name)] if name else [],
        }


def details(fleet: Fleet, query: Query) -> Answer:
    """What is known about one run, what it covers, and what each instrument costs."""
    with fleet.reading(_chosen(query)[:1]) as (run,):
        return {
            "now": time.time(),
            "runs": _heads(fleet, query, [run]),
            "path": str(run.path),
            "reason": run.reason,
            "damaged": run.damaged,
            "metadata": _safe({key: run.metadata[key] for key in run.metadata if key not in ("coverage", "cost")}),
            "coverage": str(run.metadata.get("coverage") or ""),
            "cost": {**_cost(ledger(run.metadata)), "said": spending(run).told},
            "instruments": [_instrument(run, name, ledger(run.metadata)) for name in run.kinds],
            "shared": _shared(run),
        }


def compare(fleet: Fleet, query: Query) -> Answer:
    """What differs between the chosen runs."""
    with fleet.reading(_chosen(query)) as held:
        return {"now": time.time(), "runs": _heads(fleet, query, held), "rows": _safe(differences(held))}


def table(fleet: Fleet, query: Query) -> Answer:
    """All runs with what was logged and what they were started with; as far as they have been read."""
    rows, waiting = fleet.summaries.rows()
    for row in rows:
        row |= {"name": readable(row["name"]) or row["id"], "colour": fleet.colour(row["id"])}
    return {"now": time.time(), "waiting": waiting, "rows": _safe(rows)}


def results(fleet: Fleet, query: Query) -> Answer:
    """Benchmark results below the folder, one problem at a time."""
    return {"now": time.time(), **bench(fleet, query, _panel)}


ANSWERS: dict[str, Callable[[Fleet, Query], Answer]] = {
    "runs": runs,
    "look": look,
    "deck": deck,
    "sides": sides,
    "panel": panel,
    "layers": layers,
    "details": details,
    "compare": compare,
    "table": table,
    "bench": results,
}


def _chosen(query: Query) -> tuple[str, ...]:
    if not query.runs:
        raise CockpitError("no run is chosen; give at least one as ?run=ID")
    return query.runs


def _shown(held: list[StoredRun], query: Query, view: View) -> list[Panel]:
    """The first page of the deck, or all of it: the second page lies under the fold and is not always asked for."""
    if query.more:
        return panels.deck(held, view)
    return first_page(Runs(held, view))


def coloured(fleet: Fleet, query: Query) -> View:
    """A run keeps its colour when others come and go."""
    return replace(query.view, colours=fleet.colours(query.runs))


def _listed(info: RunInfo) -> Answer:
    return _plain(
        {
            "id": info.id,
            "name": readable(info.name) or info.id,
            "state": info.state,
            "reason": info.reason,
            "started": info.started,
            "updated": info.updated,
            "step": info.step,
            "steps": info.steps,
            "loss": spoken(info.loss),
            "losses": list(info.losses),
            "hidden": info.hidden,
        }
    )


def _heads(fleet: Fleet, query: Query, held: Iterable[StoredRun]) -> list[Answer]:
    idents = list(dict.fromkeys(query.runs))
    colours = fleet.colours(idents)
    return [{**_head(ident, run), "colour": colour} for ident, run, colour in zip(idents, held, colours, strict=False)]


def _head(ident: str, run: StoredRun) -> Answer:
    """What the top bar shows."""
    started, first = _began(run)
    elapsed = max(run.updated - started, 0.0) if started is not None else None
    return _plain(
        {
            "id": ident,
            "name": readable(run.name) or ident,
            "state": run.state,
            "reason": run.reason,
            "step": run.step,
            "first": first,
            "steps": run.metadata.get("steps"),
            "started": started,
            "elapsed": elapsed,
            "cost": {"short": spending(run).short, "why": str(spending(run))},
            "broken": _broken(run),
            "damaged": run.damaged,
            "lamps": None,  # a list as soon as something judges
        }
    )


def _began(run: StoredRun) -> tuple[float | None, int]:
    """When the training was started, or continued for the last time, and at which step."""
    attempts = run.metadata.get("attempts")
    if isinstance(attempts, list) and attempts and isinstance(attempts[-1], dict):
        last = attempts[-1]
        return _number(last.get("started")), int(_number(last.get("first_step")) or 0)
    return _number(run.metadata.get("started")), 0


def _broken(run: StoredRun) -> str | None:
    """Since when the run is broken, in words."""
    end = broken(run)
    return None if end is None else f"{end.word} since step {end.broken:,}"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _layered(held: Iterable[StoredRun]) -> list[str]:
    """Quantities that can be shown layer by layer."""
    kinds = (Kind.PER_PARAMETER, Kind.HISTOGRAM)
    return list(dict.fromkeys(name for run in held for name, kind in run.kinds.items() if kind in kinds))


def _cost(found: Ledger) -> Answer:
    """What watching has cost, and what that bought."""
    spent = sum(tier.seconds for tier in found.tiers)
    tiers = [
        {
            "name": tier.name,
            "tracked": tier.tracked,
            "interval": tier.interval,
            "milliseconds": _milli(tier.mean),
            "first": _milli(tier.first),
            "share": tier.seconds / spent if spent > 0 else None,
        }
        for tier in found.tiers
    ]
    return _plain(
        {
            "allowed": found.allowed,
            "used": found.used,
            "grace": found.grace,
            "free": found.free,
            "spent": found.spent,
            "plain": _milli(found.plain),
            "estimated": found.estimated,
            "tiers": tiers,
        }
    )


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _instrument(run: StoredRun, name: str, found: Ledger) -> Answer:
    """What one instrument has given so far, and what it takes."""
    kind = run.kinds[name]
    steps = run.counted(name) if kind is Kind.HISTOGRAM else run.scalar(name).steps
    known = {one.get("name"): one for one in run.metadata.get("quantities") or () if isinstance(one, dict)}
    return _plain(
        {
            "name": name,
            "kind": kind.value,
            "level": known.get(name, {}).get("cost"),
            "values": len(steps),
            "last": int(steps[-1]) if len(steps) else None,
            "milliseconds": _milli(found.each(name)),
            "undefined": [
                {"reason": reason, "count": len(where), "first": where[0], "last": where[-1]}
                for reason, where in run.reasons(name).items()
            ],
        }
    )


def _shared(run: StoredRun) -> list[Answer]:
    """What several instruments need together, e.g. individual gradients or curvature; the largest first."""
    parts = ledger(run.metadata).dearest_first()
    return [_plain({"name": name, "milliseconds": 1e3 * each}) for name, each in parts if name not in run.kinds]


def _panel(one: Panel, query: Query, key: str = "") -> Written:
    """A panel; what changes with the data are its parameters and rows, and only these travel at an update."""
    params = {param["name"]: param["value"] for param in one.spec.get("params", ()) if "value" in param}
    fixed = [{key: param[key] for key in param if key != "value"} for param in one.spec.get("params", ())]
    spec, values, rows = dumps({**one.spec, "params": fixed}), dumps(params), dumps(one.datasets)
    marks = mark(spec), mark(values, rows)
    known = query.known.get(key or one.id, ("", ""))
    head: Answer = {
        "id": one.id,
        "title": one.title,
        "group": one.group,
        "question": one.question,
        "aid": one.aid,
        "names": list(one.names),
        "steps": one.steps,
        "note": one.note,
        "alarm": one.alarm,
        "empty": one.empty,
        "marks": ".".join(marks),
    }
    spare = (f',"spec":{spec}' if marks[0] != known[0] else "") + (f',"datasets":{rows}' if marks != known else "")
    return Written(f'{dumps(head)[:-1]},"params":{values}{spare}}}')


def readable(name: str) -> str:
    """A name as one line of text: what steers the writing direction or the line is shown as a sign of its own."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _steers(letter) else letter for letter in name).strip()


def _steers(letter: str) -> bool:
    return category(letter) in UNSEEN or bidirectional(letter) in TURNS


def _plain(values: Answer) -> Answer:
    return {key: _safe(value) for key, value in values.items()}


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
