"""TensorBoard's event files: scalars, numbers of parameters under ``quantity/parameter``, histograms."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.plain import text
from cockpit.core.source import Parts
from cockpit.store.table import Recording

PREFIX, SUFFIX = "events.out.tfevents.", ".cockpit"  # TensorBoard looks for the first; the last says whose it is
VERSION = "brain.Event:2"  # of the format, as TensorBoard writes it
Buckets = NDArray[np.float64]  # [bins, 3]: low, high, count


def file_name() -> str:
    """A name by which TensorBoard knows an event file."""
    return f"{PREFIX}{int(time.time()):010d}{SUFFIX}"


def write(run: Recording, path: Path) -> None:
    """Write one event file."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.histogram.metadata import create_summary_metadata
        from tensorboard.summary.writer.record_writer import RecordWriter  # the usual writer fails in a thread
        from tensorboard.util.tensor_util import make_tensor_proto
    except ImportError:
        message = "tensorboard is not installed; run: pip install 'cockpit-deck[export]'"
        raise CockpitError(message) from None
    times = _Clock(run)
    metadata = create_summary_metadata(display_name=None, description=None)
    with path.open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=time.time(), file_version=VERSION).SerializeToString())
        for step, name, value in _values(run):
            tag = text(name)
            if isinstance(value, float):
                entry = Summary.Value(tag=tag, simple_value=value)
            else:
                entry = Summary.Value(tag=tag, metadata=metadata, tensor=make_tensor_proto(value, dtype=np.float64))
            event = Event(step=step, wall_time=times.at(step), summary=Summary(value=[entry]))
            writer.write(event.SerializeToString())


class _Clock:
    """When a step was taken: the run's start and what ``Time`` measured, as far as they are known."""

    def __init__(self, run: Recording) -> None:
        self._start = float(run.metadata.get("started") or 0.0)
        self._time = run.scalar("Time").defined()

    def at(self, step: int) -> float:
        if not len(self._time):
            return self._start
        return self._start + float(np.interp(step, self._time.steps, self._time.values))


def _values(run: Recording) -> Iterator[tuple[int, str, Any]]:
    for name, kind in run.kinds.items():
        if kind in (Kind.SCALAR, Kind.PER_PARAMETER):
            absent = {step for steps in run.reasons(name).values() for step in steps}
            series = run.scalar(name)
            for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
                if step not in absent:
                    yield step, name, value
        if kind is Kind.PER_PARAMETER:
            yield from _parts(name, run.parts(name))
        if kind is Kind.HISTOGRAM:
            for step in run.counted(name).tolist():
                for axis, buckets in enumerate(_marginals(run.histogram(name, step))):
                    yield step, f"{name}/axis {axis}" if axis else name, buckets


def _parts(name: str, parts: Parts) -> Iterator[tuple[int, str, float]]:
    for column, key in enumerate(parts.keys):
        for step, value in zip(parts.steps.tolist(), parts.values[:, column].tolist(), strict=True):
            if not np.isnan(value):
                yield step, f"{name}/{key}", value


def _marginals(histogram: Histogram) -> Iterator[Buckets]:
    """Along each axis, the others summed: TensorBoard has one-dimensional histograms only."""
    counts = histogram.counts
    for axis, edges in enumerate(histogram.edges):
        others = tuple(place for place in range(counts.ndim) if place != axis)
        yield np.stack([edges[:-1], edges[1:], counts.sum(axis=others)], axis=1).astype(np.float64)
