"""The wall clock, or epochs, as the axis: a run whose steps are counted in millionths of a second or an epoch."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from cockpit.core.errors import CockpitError
from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.ledger import ledger
from cockpit.core.source import Parts, Series, Source, Steps, Values
from cockpit.panels.names import EPOCH

SECOND = 1_000_000  # of the axis


class Clocked:
    """A :class:`~cockpit.core.source.Source` with the time, or the epoch, of each step in the place of its number."""

    def __init__(self, source: Source, by: Literal["time", "epoch"] = "time") -> None:
        self.source = source
        times = _epochs(source) if by == "epoch" else source.scalar("Time").defined()
        if len(times) < 2:
            if by == "epoch":
                raise CockpitError(
                    f"{source.name} has logged fewer than two epochs; log them, as pit.log(epoch=3), or show steps"
                )
            raise CockpitError(
                f"{source.name} has no time of its steps; show it by steps, or add 'Time' to the quantities"
            )
        self._steps = times.steps
        # One millionth a step at least, so that no two steps fall together.
        self._times = np.maximum.accumulate(np.round(times.values * SECOND) - times.steps) + times.steps
        self._after = float(self._times[-1] - self._times[-2]) / float(times.steps[-1] - times.steps[-2])
        plain = ledger(source.metadata).plain if by == "time" else None
        if plain:  # steps after the last tracked one were plain; the way to that one was tracked, too
            self._after = min(self._after, max(plain * SECOND, 1.0))

    @property
    def name(self) -> str:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.name

    @property
    def metadata(self) -> Mapping[str, Any]:
        """See :class:`~cockpit.core.source.Source`; without the number of planned steps."""
        return {key: value for key, value in self.source.metadata.items() if key != "steps"}

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.kinds

    def scalar(self, name: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        return self._timed(self.source.scalar(name))

    def parts(self, name: str) -> Parts:
        """See :class:`~cockpit.core.source.Source`."""
        found = self.source.parts(name)
        return Parts(self.times(found.steps), found.keys, found.values)

    def detail(self, name: str, key: str) -> Series:
        """See :class:`~cockpit.core.source.Source`."""
        return self._timed(self.source.detail(name, key))

    def constant(self, name: str, key: str) -> str | None:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.constant(name, key)

    def counted(self, name: str) -> Steps:
        """See :class:`~cockpit.core.source.Source`."""
        return self.times(self.source.counted(name))

    def histogram(self, name: str, step: int) -> Histogram:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.histogram(name, self._step(name, step))

    def samples(self, name: str, step: int) -> Values:
        """See :class:`~cockpit.core.source.Source`."""
        return self.source.samples(name, self._step(name, step))

    def reasons(self, name: str) -> dict[str, list[int]]:
        """See :class:`~cockpit.core.source.Source`."""
        found = self.source.reasons(name)
        return {reason: self.times(np.array(steps, dtype=np.int64)).tolist() for reason, steps in found.items()}

    def times(self, steps: Steps) -> Steps:
        """When these steps were taken; between the timed ones, and beyond them, they are taken to be even."""
        first = (self._times[1] - self._times[0]) / (self._steps[1] - self._steps[0])
        before, after = (steps - self._steps[0]) * first, (steps - self._steps[-1]) * self._after
        found = np.interp(steps, self._steps, self._times) + np.minimum(before, 0) + np.maximum(after, 0)
        whole: Steps = np.round(found).astype(np.int64)
        return whole

    def _step(self, name: str, time: int) -> int:
        steps = self.source.counted(name)
        return int(steps[min(int(np.searchsorted(self.times(steps), time)), len(steps) - 1)])

    def _timed(self, series: Series) -> Series:
        return Series(self.times(series.steps), series.values)


def _epochs(source: Source) -> Series:
    """The step at which each epoch was first logged: a whole number may be logged at every step of it."""
    logged = source.scalar(EPOCH).defined()
    before = np.concatenate([[-np.inf], np.maximum.accumulate(logged.values)[:-1]]) if len(logged) else logged.values
    new = logged.values > before
    return Series(logged.steps[new], logged.values[new])


def spoken(time: float) -> str:
    """A time of the axis in words: 12.5 s, 3 min 20 s, 2 h 05 min."""
    seconds = time / SECOND
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
