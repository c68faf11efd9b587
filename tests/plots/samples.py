"""Runs to show: records of every kind, undefined ones and the user's own."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from cockpit import store
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record

EDGES = np.linspace(-2, 2, 5)
LATER = "the next step was not taken"
METADATA: dict[str, Any] = {
    "name": "digits",
    "started": 1_700_000_000.0,
    "host": "laptop",
    "command": "python train.py",
    "git": {"commit": "0123abcdef99", "branch": "main", "dirty": True},
    "device": "cpu",
    "model": {"class": "Sequential", "elements": 2698, "layers": []},
    "optimizers": [{"class": "SGD", "groups": [{"lr": 0.1, "momentum": 0.9}]}],
    "loss": "CrossEntropyLoss",
    "quantities": [{"name": "Loss", "kind": "scalar", "cost": "economy"}],
    "schedule": "every step",
    "steps": 20,
    "coverage": "All parameters are covered.",
}
TIERS = [
    {"tier": 1, "name": "economy", "tracked": 1120, "alone": 1080, "seconds": 4.5, "mean": 0.0042, "interval": 40.0},
    {"tier": 3, "name": "full", "tracked": 40, "alone": 40, "seconds": 9.0, "mean": 0.225, "interval": 1210.0},
]
COST: dict[str, Any] = {
    "seconds": {"tracked steps": 10.0, "Loss": 1.0},
    "counts": {"tracked steps": 1120, "Loss": 1120},
    "tracked": 1120,
    "budget": {"share": 0.05, "used": 0.045, "spent": 13.5, "trained": 300.0, "plain": 0.01, "tiers": TIERS},
}


def flat() -> Histogram:
    return Histogram((EDGES,), {"0.weight": np.array([0, 3, 5, 1]), "0.bias": np.array([0, 1, 0, 0])})


def square() -> Histogram:
    return Histogram((EDGES, EDGES), {"0.weight": np.eye(4, dtype=np.int64)})


def frame(step: int, last: bool = False) -> list[Record]:
    """What is recorded at one step; Alpha of the last one is undefined."""
    alpha = Record(step, "Alpha", Kind.SCALAR, None, LATER) if last else Record(step, "Alpha", Kind.SCALAR, 0.25)
    summary = {"0.weight": {"norm": 3.0, "mean": 0.1}, "0.bias": {"norm": 4.0, "mean": 0.2}}
    return [
        Record(step, "Loss", Kind.SCALAR, 2.0 / (step + 1)),
        alpha,
        Record(step, "GradNorm", Kind.PER_PARAMETER, {"0.weight": 3.0, "0.bias": 4.0}),
        Record(step, "HessTrace", Kind.PER_PARAMETER, {"0.weight": 3.0, "0.bias": -1.0}, None, {"curvature": "ggn"}),
        Record(step, "Parameters", Kind.PER_PARAMETER, summary),
        Record(step, "GradHist1d", Kind.HISTOGRAM, flat()),
        Record(step, "GradHist2d", Kind.HISTOGRAM, square()),
        Record(step, "Fuel", Kind.SCALAR, nan if step == 3 else 7.5),
        Record(step, "tracking_seconds", Kind.SCALAR, 0.5),
    ]


def records(steps: int = 10) -> list[Record]:
    return [record for step in range(steps) for record in frame(step, step == steps - 1)]


def output(steps: int = 10) -> dict[int, dict[str, Any]]:
    """The same as ``get_output()`` gives it."""
    found: dict[int, dict[str, Any]] = {}
    for record in records(steps):
        found.setdefault(record.step, {})[record.name] = record.value
    return found


def stored(folder: Path, steps: int = 10, state: str | None = "finished", **metadata: Any) -> Path:
    """A run on disk; ``state=None`` leaves it open and returns before it is closed."""
    writer = store.create(folder, {**METADATA, **metadata})
    writer.append(records(steps))
    writer.step = steps
    if state is not None:
        writer.close(state)
    return folder
