"""A sweep's state in words."""

from collections.abc import Iterator, Sized
from typing import Any

from cockpit.results.tables import number


def lines(told: dict[str, Any]) -> str:
    """How far a sweep is."""
    return "\n".join(_lines(told))


def _lines(told: dict[str, Any]) -> Iterator[str]:
    runs = told["runs"]
    ended = runs["finished"] + runs["diverged"] + runs["failed"]
    yield f"{told['name']}: {told['state']}, {ended:,} of {runs['distinct']:,} runs have ended"
    for state in ("diverged", "failed", "leased"):
        if runs[state]:
            yield f"  {runs[state]:,} {'with a worker now' if state == 'leased' else state}"
    if told["seconds_left"]:
        yield f"  {duration(told['seconds_left'])} left"
    alike: dict[str, list[dict[str, Any]]] = {}
    for one in told["failures"]:
        alike.setdefault(one["message"], []).append(one)
    for message, those in alike.items():
        yield f"  failed: {_named(those[0])}{_more(those)}: {' '.join(message.split())}"


def _named(run: dict[str, Any]) -> str:
    """A run in a line."""
    settings = " ".join(f"{name}={number(value)}" for name, value in run["hyperparameters"].items())
    return f"{run['problem']} {run['optimizer']} {settings} {run['schedule']} seed {run['seed']}"


def _more(runs: Sized) -> str:
    return f" and {len(runs) - 1} more" if len(runs) > 1 else ""


def planned(told: dict[str, Any], exactly: bool) -> str:
    """What a sweep is to do; ``exactly``: no run waits for a winner to be known."""
    runs = told["runs"]
    said = f"{told['name']}: {told['cells']:,} cells, {runs['nominal']:,} runs"
    said += f"; {runs['stored']:,} are there, {'' if exactly else 'at most '}{runs['to_do']:,} to do"
    return said if not told["seconds"] else f"{said}, about {duration(told['seconds'])}"


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
