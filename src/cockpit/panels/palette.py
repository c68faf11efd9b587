"""Colours of runs: the same on the page and on paper."""

from collections.abc import Iterable, Sequence

from cockpit.panels.theme import RUNS


def in_order(runs: Iterable[str], known: dict[str, str] | None = None) -> dict[str, str]:
    """A colour for each run, in the order in which they were started; those that have one keep it."""
    found = {} if known is None else known
    for run in runs:
        found.setdefault(run, RUNS[len(found) % len(RUNS)])
    return found


def apart(colours: Sequence[str]) -> tuple[str, ...]:
    """The colours of runs that are shown together: of two that are the same, the later one gets a free one."""
    free = [colour for colour in RUNS if colour not in colours]
    seen: set[str] = set()
    told: list[str] = []
    for colour in colours:
        told.append(free.pop(0) if colour in seen and free else colour)
        seen.add(colour)
    return tuple(told)
