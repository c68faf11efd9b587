"""Small runs on disk, written as a training would, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cockpit import store
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record

EVIL = "<script>document.title='owned'</script>"
LAYERS = ("0.weight", "0.bias", "2.weight", "2.bias")
SCALARS = ("Alpha", "NormTest", "InnerTest", "OrthoTest", "HessMaxEV", "TICDiag", "CABS", "EarlyStopping", "MeanGSNR")
PARTS = ("Distance", "UpdateSize", "GradNorm", "HessTrace")
EDGES = np.linspace(-2, 2, 41)
PLANE = (np.linspace(-1, 1, 11), np.linspace(-2, 2, 11))


def frame(step: int) -> list[Record]:
    """All that is tracked at a step: every kind of value, enough to fill each panel of the deck."""
    noise = np.random.default_rng(step)
    values = noise.normal(size=(len(LAYERS), 50)) * 0.3
    found = [
        Record(step, "Loss", Kind.SCALAR, 2 * math.exp(-step / 50) + 0.1),
        Record(step, "Time", Kind.SCALAR, 0.01 * step),
        Record(step, "learning_rate", Kind.SCALAR, 0.1),
        Record(step, "batch_size", Kind.SCALAR, 64.0),
        Record(step, "tracking_seconds", Kind.SCALAR, 1e-5),
        Record(step, "accuracy", Kind.SCALAR, 1 - math.exp(-step / 50)),
    ]
    found += [Record(step, name, Kind.SCALAR, float(abs(noise.normal())) + 0.1) for name in SCALARS]
    for name in PARTS:
        found.append(Record(step, name, Kind.PER_PARAMETER, {key: float(abs(noise.normal())) for key in LAYERS}))
    one = {key: np.histogram(part, EDGES)[0] for key, part in zip(LAYERS, values, strict=True)}
    two = {key: np.histogram2d(part, part, PLANE)[0].astype(int) for key, part in zip(LAYERS, values, strict=True)}
    found.append(Record(step, "GradHist1d", Kind.HISTOGRAM, Histogram((EDGES,), one)))
    found.append(Record(step, "GradHist2d", Kind.HISTOGRAM, Histogram(PLANE, two)))
    return found


def write(
    folder: Path,
    steps: Iterable[int] = range(40),
    state: str = "finished",
    reason: str | None = None,
    **metadata: Any,
) -> Path:
    """Write a run and close it; ``name`` is what it calls itself."""
    writer = store.create(folder, metadata)
    for step in steps:
        writer.append(frame(step))
        writer.step = step
    writer.close(state, reason)
    assert writer.problem is None
    return writer.folder
