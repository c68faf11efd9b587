"""The learning rate of every parameter group."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from cockpit.core.kinds import Kind
from cockpit.core.source import Source
from cockpit.panels._base import Instrument, Panel
from cockpit.panels.lines import Chart, Track, draw, labelled, now, track
from cockpit.panels.runs import Runs, unique

INSTRUMENT = Instrument(
    "learning-rate",
    "Learning rate",
    "performance",
    "What does the schedule do?",
    "Learning rate of each parameter group as the optimizer used it. Healthy is the schedule you meant; when it is "
    "not, look for a scheduler that is stepped too often, too seldom or not at all.",
    ("learning_rate",),
)
PATTERN = re.compile(r"learning_rate(\[\d+\])?")


def panel(runs: Runs) -> Panel:
    """Show one line for each parameter group."""
    names = [name for name in runs.names(Kind.SCALAR) if PATTERN.fullmatch(name)] or ["learning_rate"]
    given = _names(runs.plain)
    labels = unique([_label(name, given) for name in names])
    tracks = [track(runs, name, label, error=None) for name, label in zip(names, labels, strict=True)]
    facts = now(runs, tracks[0]) if len(tracks) == 1 else labelled(runs, tracks)
    return draw(INSTRUMENT, runs, Chart(tracks, "learning rate", scale=_scale(tracks), facts=facts))


def _scale(tracks: Sequence[Track]) -> Literal["log", "linear"]:
    """Linear shows the shape of a schedule, unless most of it lies at the bottom."""
    rates = np.concatenate([series.defined().values for one in tracks for series in one.series] or [np.empty(0)])
    return "log" if len(rates) and rates.min() > 0 and np.median(rates) < rates.max() / 30 else "linear"


def _label(name: str, given: Sequence[str]) -> str:
    """The name that the user gave to the group, or its number."""
    group = int(name[14:-1]) if name.endswith("]") else 0
    return (given[group] if group < len(given) else "") or f"group {group}"


def _names(sources: Sequence[Source]) -> list[str]:
    """The names of the optimizers' parameter groups; empty where they have none, or runs differ."""
    found = [_given(source.metadata.get("optimizers")) for source in sources]
    return found[0] if found and all(one == found[0] for one in found) else []


def _given(optimizers: Any) -> list[str]:
    known = [one for one in optimizers if isinstance(one, Mapping)] if isinstance(optimizers, list) else []
    groups = [group for one in known for group in one.get("groups") or () if isinstance(group, Mapping)]
    return [str(group.get("name") or "") for group in groups]
