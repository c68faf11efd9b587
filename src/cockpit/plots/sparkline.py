"""A curve or a histogram in one line of text."""

from collections.abc import Sequence

import numpy as np

from cockpit.core.source import Steps, Values

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*#%"  # for terminals that cannot show blocks
NOT_FINITE = "!"
FLAT = 1e-12  # relative: the mean of equal numbers may differ so much from them


def curve(
    steps: Sequence[int] | Steps,
    values: Sequence[float] | Values,
    axis: Sequence[int] | Steps,
    width: int,
    ramp: str = BLOCKS,
    log_steps: bool = False,
) -> str:
    """Draw values over the steps of ``axis``; by their logarithm where they are positive and span two decades."""
    if not len(values):
        return ""
    places, span = np.asarray(steps, dtype=float), np.asarray([axis[0], axis[-1]], dtype=float)
    if log_steps:
        places, span = np.log1p(places - span[0]), np.log1p(span - span[0])
    columns = _columns(places, np.asarray(values, dtype=float), span, min(width, len(axis)))
    finite = columns[np.isfinite(columns)]
    if len(finite) and finite.min() > 0 and finite.max() >= 100 * finite.min():
        columns = np.log(columns)
    drawn = _draw(columns, ramp)
    before = int(np.searchsorted(_ends(span, len(columns)), places[0]))
    return " " * before + drawn[before:]


def bars(counts: Values, width: int, ramp: str = BLOCKS) -> str:
    """Draw counts of bins, by their logarithm; an empty column is a space."""
    parts = np.array_split(counts, min(width, len(counts)))
    columns = np.array([part.sum() for part in parts], dtype=float)
    drawn = _draw(np.log1p(columns), ramp, low=0.0)
    return "".join(" " if count == 0 else bar for count, bar in zip(columns, drawn, strict=True))


def _columns(places: Values, heights: Values, span: Values, width: int) -> Values:
    """Mean of the values in each column; a column without values lies between its neighbours."""
    if width < 2 or span[1] <= span[0]:
        return heights[-1:]
    ends = _ends(span, width)
    column = np.minimum(np.searchsorted(ends, places), width - 1)
    counts = np.bincount(column, minlength=width)
    sums = np.bincount(column, weights=heights, minlength=width)
    centres = ends - (span[1] - span[0]) / width / 2
    filled: Values = np.where(counts > 0, sums / np.maximum(counts, 1), np.interp(centres, places, heights))
    return filled


def _ends(span: Values, width: int) -> Values:
    """Where each column ends."""
    ends: Values = np.linspace(span[0], span[1], width + 1)[1:]
    return ends


def _draw(columns: Values, ramp: str, low: float | None = None) -> str:
    finite = columns[np.isfinite(columns)]
    if not len(finite):
        return NOT_FINITE * len(columns)
    bottom = float(finite.min()) if low is None else low
    span = float(finite.max()) - bottom
    top = len(ramp) - 1
    if span <= FLAT * float(np.abs(finite).max()):
        return "".join(ramp[top // 2] if np.isfinite(value) else NOT_FINITE for value in columns)
    return "".join(
        ramp[round((float(value) - bottom) / span * top)] if np.isfinite(value) else NOT_FINITE for value in columns
    )
