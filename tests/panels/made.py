"""Runs made of numbers, so that tests know what to expect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded

ECONOMY = (
    *("Loss", "Time", "Alpha", "Distance", "UpdateSize", "GradNorm", "NormTest", "InnerTest", "OrthoTest"),
    *("GradHist1d", "learning_rate", "batch_size", "tracking_seconds", "accuracy"),
)
LAYERS = {"0": "Conv2d", "3": "Conv2d", "7": "Linear"}
PARAMETERS = tuple(f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias"))
METADATA: dict[str, Any] = {
    "model": {
        "layers": [
            {"name": name, "type": kind, "parameters": [{"name": f"{name}.weight"}, {"name": f"{name}.bias"}]}
            for name, kind in LAYERS.items()
        ]
    }
}


def records(steps: Iterable[int] = range(0, 80, 2), seed: int = 0) -> list[Record]:
    """Every quantity at every step; curvature is an estimate with standard errors."""
    draw = np.random.default_rng(seed)
    made: list[Record] = []
    for step in steps:
        scalars: dict[str, float] = {
            **{"Loss": 2 / (1 + step), "Time": 0.5 * step, "Alpha": float(draw.normal(0.2, 0.8))},
            **{"NormTest": 0.8, "InnerTest": 0.48, "OrthoTest": 0.64, "CABS": 40.0, "EarlyStopping": -0.5},
            **{"MeanGSNR": 0.1, "TICDiag": 30.0, "TICTrace": 0.5, "HessMaxEV": 10.0 + step},
            **{"learning_rate": 0.1, "batch_size": 64.0, "tracking_seconds": 0.2, "accuracy": step / 100},
        }
        made += [Record(step, name, Kind.SCALAR, value) for name, value in scalars.items()]
        for name in ("Distance", "UpdateSize", "GradNorm", "HessTrace"):
            value = {key: float(draw.exponential()) for key in PARAMETERS}
            made.append(Record(step, name, Kind.PER_PARAMETER, value, None, details(name)))
        weights = {key: {"norm": 2.0, "mean": 0.0} for key in PARAMETERS}
        made.append(Record(step, "Parameters", Kind.PER_PARAMETER, weights))
        made += [Record(step, "GradHist1d", Kind.HISTOGRAM, flat(draw))]
        made += [Record(step, "GradHist2d", Kind.HISTOGRAM, square(draw))]
    return made


def details(name: str) -> dict[str, Any]:
    if name != "HessTrace":
        return {}
    return {"curvature": "hutchinson", "total": "sum", "standard_error": dict.fromkeys(PARAMETERS, 0.1)}


def flat(draw: np.random.Generator) -> Histogram:
    return Histogram((np.linspace(-2, 2, 101),), {key: draw.poisson(3, 100) for key in PARAMETERS})


def square(draw: np.random.Generator) -> Histogram:
    edges = (np.linspace(-1, 1, 41), np.linspace(-2, 2, 51))
    return Histogram(edges, {key: draw.poisson(0.5, (40, 50)) for key in PARAMETERS})


def run(name: str = "made", steps: Iterable[int] = range(0, 80, 2), seed: int = 0) -> Recorded:
    return Recorded(records(steps, seed), name, METADATA)


def economy(name: str = "economy") -> Recorded:
    """Without curvature, two-dimensional histograms and metadata."""
    return Recorded([record for record in records() if record.name in ECONOMY], name)


def of(name: str, values: dict[int, float | None], reason: str | None = None, **more: dict[int, float]) -> Recorded:
    """A run of one scalar, None where it is undefined for the reason given, and of further scalars."""
    made = [Record(s, name, Kind.SCALAR, v, reason if v is None else None) for s, v in values.items()]
    made += [Record(s, other, Kind.SCALAR, v) for other, series in more.items() for s, v in series.items()]
    return Recorded(made, "one")


def shapes() -> dict[str, list[Recorded]]:
    """Everything a panel may be asked to show."""
    losses = {0: 1.0, 1: float("nan"), 2: float("inf"), 3: 0.5, 4: None}
    layers = [f"{depth}.{part}.weight" for depth in range(50) for part in ("norm", "fc1", "fc2")]
    deep = [Record(s, "GradNorm", Kind.PER_PARAMETER, dict.fromkeys(layers, 1.0 + s)) for s in range(5)]
    return {
        "one": [run()],
        "long": [run("long", range(0, 4000, 50))],
        "two": [run(), run("other", range(0, 40), 1)],
        "same name": [run(), run()],
        "economy": [economy()],
        "empty": [Recorded([], "empty")],
        "none": [],
        "one step": [run("short", [0])],
        "not finite": [of("Loss", losses, "no batch")],
        "deep": [Recorded(deep, "deep")],
    }
