"""Where the numbers of a run end: since when a quantity is not finite, or undefined."""

from typing import NamedTuple

import numpy as np

from cockpit.core.kinds import Kind
from cockpit.core.source import Source

NOT_FINITE = "not finite"  # in the reason of a value that is undefined because of this
WATCHED = ("Loss", "GradNorm", "UpdateSize", "Distance", "Parameters")  # the first that is tracked speaks for the run
WAITING = 1  # values at the end that may only be undefined because the next step is not known yet


class Tail(NamedTuple):
    """What follows the last finite number of a quantity."""

    last: int | None  # step of that number
    since: int | None  # the next step with a record, which has no finite number
    lacking: int  # records without one
    broken: int | None  # the first of these that is not finite
    word: str  # what it is there: NaN, inf, -inf

    @property
    def over(self) -> bool:
        """Whether the last number is no longer what the quantity is."""
        return self.broken is not None or self.lacking > WAITING


def tail(source: Source, name: str) -> Tail:
    """Look at the end of one quantity."""
    series = source.scalar(name)
    numbers = series.steps[np.isfinite(series.values)]
    if source.kinds.get(name) in (Kind.HISTOGRAM, Kind.PER_SAMPLE):
        numbers = source.counted(name)
    last = int(numbers[-1]) if len(numbers) else -1
    begin = int(np.searchsorted(series.steps, last, "right"))
    values = dict(zip(series.steps[begin:].tolist(), series.values[begin:].tolist(), strict=True))
    reasons = {step: why for why, steps in source.reasons(name).items() for step in steps if step > last}
    after = sorted(values.keys() | reasons.keys())
    odd = [step for step in after if step not in reasons or NOT_FINITE in reasons[step]]
    word = _word(values.get(odd[0], np.nan)) if odd else ""
    return Tail(last if last >= 0 else None, after[0] if after else None, len(after), odd[0] if odd else None, word)


def broken(source: Source) -> Tail | None:
    """The end of the quantity that speaks for the run, where it is not finite; None: the run is sound."""
    name = next((name for name in WATCHED if name in source.kinds), None)
    found = tail(source, name) if name is not None else None
    return found if found is not None and found.broken is not None else None


def _word(value: float) -> str:
    return "NaN" if np.isnan(value) else "inf" if value > 0 else "-inf"
