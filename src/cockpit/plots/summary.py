"""The state of a run in plain numbers: what ``cockpit show`` prints, and what other programs read."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from cockpit.core.finite import tail
from cockpit.core.kinds import Kind
from cockpit.core.ledger import WHOLE, TierCost, ledger
from cockpit.core.record import COVERED, PROCESS
from cockpit.core.source import Source, taken
from cockpit.plots.deck import GROUPS, LAST, Row, row

UNFINISHED = ("running", "stale")
CONTEXT = {*LAST, "learning_rate"}
QUANTITIES = {name for _, names in GROUPS.values() for name in names} - CONTEXT


def summary(run: Source) -> dict[str, Any]:
    """Return what is known about a run as JSON; None for what is not known, or is not a finite number."""
    meta = run.metadata
    rows = {name: row(run, name) for name in list(run.kinds)}
    rows = {name: rows[name] for name in run.kinds if name in rows}  # what turned out to be damaged is left out
    started, updated = meta.get("started"), getattr(run, "updated", None)
    known = {entry.get("name") for entry in meta.get("quantities") or ()} | QUANTITIES
    user = [name for name, kind in run.kinds.items() if kind is Kind.SCALAR and not _ours(name, known)]
    return {
        "name": run.name,
        "path": _text(getattr(run, "path", None)),
        "state": getattr(run, "state", None),
        "reason": getattr(run, "reason", None),
        "step": _step(run, rows),
        "first": min((int(step) for found in rows.values() for step in found.steps[:1]), default=None),
        "steps": meta.get("steps"),
        "started": started,
        "updated": updated,
        "elapsed": elapsed(run),
        "loss": _last(rows["Loss"]) if "Loss" in rows else None,
        "metrics": {name: _numbers(run, rows[name]) for name in user},
        "quantities": {
            name: {"kind": run.kinds[name].value, "reading": found.reading, **_numbers(run, found)}
            for name, found in rows.items()
            if name not in user
        },
        "undefined": {name: _undefined(found) for name, found in rows.items() if found.undefined},
        "lost": meta.get("lost"),
        "damaged": getattr(run, "damaged", None),
        "cost": cost(run),
    }


def _step(run: Source, rows: Mapping[str, Row]) -> int | None:
    ends = [int(step) for found in rows.values() for step in found.steps[-1:]]
    ends += [int(steps[-1]) for found in rows.values() for steps in found.undefined.values()]
    recorded, reached = max(ends, default=None), getattr(run, "reached", None)
    begun = [attempt.get("first_step") for attempt in run.metadata.get("attempts") or ()][:1]
    if recorded is None and begun == [reached]:
        return None  # its numbers begin at some step, which is yet to be taken
    return taken(reached, recorded)


def elapsed(run: Source) -> float | None:
    """Seconds from the start to the last sign of life."""
    started, updated = run.metadata.get("started"), getattr(run, "updated", None)
    if isinstance(started, int | float) and isinstance(updated, int | float) and updated >= started:
        return float(updated - started)
    known = (run.metadata.get("cost") or {}).get("elapsed")
    return float(known) if isinstance(known, int | float) and isfinite(known) else None


def cost(run: Source) -> dict[str, Any]:
    """What watching has cost: seconds, the share of the time so far, the number of tracked steps, and the budget."""
    spent, found, time = run.scalar("tracking_seconds").defined(), ledger(run.metadata), elapsed(run)
    if found.spent is not None:
        seconds: float | None = found.spent
        share = found.overall
    else:
        seconds = float(spent.values.sum()) if len(spent) else found.parts.get(WHOLE)
        share = seconds / time if seconds is not None and time else None
    return {
        "seconds": seconds,
        "share": share,
        "tracked": len(spent) or found.counts.get(WHOLE),
        "allowed": found.allowed,
        "used": found.used,
        "step_seconds": found.plain,
        "tiers": [_tier(tier) for tier in found.tiers],
    }


def _tier(tier: TierCost) -> dict[str, Any]:
    return {"name": tier.name, "tracked": tier.tracked, "seconds": tier.mean, "interval": tier.interval}


def _ours(name: str, known: set[Any]) -> bool:
    return name in known or name.split("[")[0] in CONTEXT


def _numbers(run: Source, found: Row) -> dict[str, Any]:
    finite = found.values[np.isfinite(found.values)]
    return {
        "last": _last(found),
        "step": int(found.steps[-1]) if len(found.steps) else None,
        "min": float(finite.min()) if len(finite) else None,
        "max": float(finite.max()) if len(finite) else None,
        "not_finite": len(found.values) - len(finite),
        "not_finite_since": tail(run, found.name).broken,
        **({COVERED: found.covered} if found.covered < 1 else {}),
        **({PROCESS: found.process} if found.process is not None else {}),
    }


def _undefined(found: Row) -> dict[str, Any]:
    return {
        reason: {"count": len(steps), "first": steps[0], "last": steps[-1]} for reason, steps in found.undefined.items()
    }


def _last(found: Row) -> float | None:
    return float(found.values[-1]) if len(found.values) and isfinite(found.values[-1]) else None


def _text(path: Any) -> str | None:
    return None if path is None else str(path)
