"""A panel for anything that has none of its own, from its kind."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cockpit.core.kinds import Kind
from cockpit.core.source import Series, Values
from cockpit.panels import hist1d, hist2d
from cockpit.panels._base import Instrument, Panel, slug
from cockpit.panels.columns import spread_steps
from cockpit.panels.lines import Chart, Track, draw, now, track
from cockpit.panels.runs import Runs

WORDS = {
    Kind.SCALAR: "One number for each tracked step.",
    Kind.PER_PARAMETER: "Total over all parameters; the layer view shows each.",
    Kind.PER_SAMPLE: "Largest, median and smallest of one number for each sample of the batch.",
    Kind.HISTOGRAM: "Counts (log) in each bin at the last tracked step; the outermost bins hold what lies beyond.",
}
STEPS = 300  # of values per sample
HEALTHY = {
    Kind.HISTOGRAM: "Healthy is a shape that changes slowly and stays off the outermost bins; when it does not, widen "
    "the range or look for a wrong scale.",
}
CURVE = "Healthy is a curve without jumps that you can explain; when it jumps, look at what else changed at that step."


def panel(runs: Runs, name: str) -> Panel:
    """Show a quantity by its kind."""
    kind = next((source.kinds[name] for source in runs.sources if name in source.kinds), Kind.SCALAR)
    aid = f"{WORDS[kind]} {HEALTHY.get(kind, CURVE)}"
    steps = kind is not Kind.HISTOGRAM
    instrument = Instrument(identity(name), name, "more", "How does it develop?", aid, (name,), steps)
    if kind is Kind.PER_SAMPLE:
        return draw(instrument, runs, Chart(_spread(runs, name), name))
    if kind is Kind.HISTOGRAM:
        return _histogram(runs, name, instrument)
    one = track(runs, name)
    return draw(instrument, runs, Chart([one], name, facts=now(runs, one)))


def _spread(runs: Runs, name: str) -> list[Track]:
    """Three series that show how the samples of each batch spread, at as many steps as the eye can tell apart."""
    read: dict[str, Callable[[Values], Any]] = {"largest": np.max, "median": np.median, "smallest": np.min}
    found: dict[str, list[Series]] = {label: [] for label in read}
    for source in runs.sources:
        steps = spread_steps(source.counted(name), STEPS, runs)
        batches = [(step, source.samples(name, int(step))) for step in steps]
        filled = [(int(step), values) for step, values in batches if len(values)]
        where = np.array([step for step, _ in filled], dtype=np.int64)
        for label, how in read.items():
            found[label].append(Series(where, np.array([float(how(values)) for _, values in filled])))
    return [Track(label, name, series) for label, series in found.items()]


def _histogram(runs: Runs, name: str, instrument: Instrument) -> Panel:
    found = [(place, step) for place in runs.holding(name) if (step := runs.counted(place, name)) is not None]
    flat = all(len(runs.sources[place].histogram(name, step).edges) == 1 for place, step in found)
    return hist1d.draw(instrument, runs, name, name) if flat else hist2d.draw(instrument, runs, name)


def identity(name: str) -> str:
    """The panel's id."""
    return f"of-{slug(name)}"
