"""The runs that are shown together: their names, colours and common step axis, each series read once."""

from collections.abc import Sequence
from copy import copy
from typing import Literal

import numpy as np

from cockpit.core import finite
from cockpit.core.finite import Tail
from cockpit.core.kinds import Kind
from cockpit.core.source import Parts, Series, Source, Steps
from cockpit.panels._base import View
from cockpit.panels.clock import SECOND, Clocked, spoken
from cockpit.panels.theme import RUNS

LONG = 1000  # steps from which on their axis is logarithmic by default
ROWS, FEWEST = 1500, 32  # of a panel over all its series, of a series: 20 runs must not cost 20 times what one does


class Runs:
    """Sources under one view."""

    def __init__(self, sources: Sequence[Source], view: View) -> None:
        self.sources: tuple[Source, ...] = tuple(sources)
        if view.x != "step":
            self.sources = tuple(Clocked(source, view.x) for source in sources)
        self.plain, self.view = tuple(sources), view  # with steps as they were counted
        self.labels = unique([source.name for source in self.sources])
        given = view.colours or ()
        self.colours = tuple(
            given[place] if place < len(given) else RUNS[place % len(RUNS)] for place in range(len(self.sources))
        )
        self._series: dict[tuple[int, str, str], Series] = {}
        self._parts: dict[tuple[int, str], Parts] = {}
        self._tails: dict[tuple[int, str], Tail] = {}
        self._broken: dict[int, Tail | None] = {}
        self.first, self.last = self._reach()
        planned = [source.metadata.get("steps") for source in self.sources]
        length = max([self.last, *(steps for steps in planned if isinstance(steps, int))])  # no jump when it gets there
        self.log = view.axis == "log" or (view.axis == "auto" and length >= LONG and view.x == "step")

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def several(self) -> bool:
        """Whether runs are compared."""
        return len(self.sources) > 1

    @property
    def span(self) -> tuple[float, float]:
        """First and last step of the picture."""
        if self.view.span is not None:
            return self.view.span
        if self.last <= self.first:
            return self.first - 0.5, self.first + 0.5
        return float(self.first), float(self.last)

    def only(self, place: int) -> "Runs":
        """One of the runs, on the common step axis."""
        alone = copy(self)
        alone.sources, alone.plain = (self.sources[place],), (self.plain[place],)
        alone.labels, alone.colours = [self.labels[place]], self.colours[place:]
        alone._series, alone._parts, alone._tails, alone._broken = {}, {}, {}, {}
        return alone

    @property
    def end(self) -> float:
        """The last step in sight."""
        return self.view.span[1] if self.view.span is not None else np.inf

    def when(self, step: float) -> str:
        """A place on the axis in words."""
        if self.view.x == "epoch":
            return f"epoch {step / SECOND:.3g}"
        return spoken(step) if self.view.x == "time" else f"step {step:,.0f}"

    def tail(self, place: int, name: str) -> Tail:
        """What follows the last finite number of a quantity of one run."""
        if (place, name) not in self._tails:
            self._tails[place, name] = finite.tail(self.sources[place], name)
        return self._tails[place, name]

    def since(self, place: int, name: str) -> str:
        """Since when a quantity is no number any more; empty where it still is one."""
        found = self.tail(place, name)
        if not found.over or found.since is None or found.since > self.end:
            return ""
        if found.broken is not None:
            return f"{found.word} since {self.when(found.broken)}"
        return f"undefined since {self.when(found.since)}"

    def broken(self, place: int) -> Tail | None:
        """Where a run broke, if it did."""
        if place not in self._broken:
            self._broken[place] = finite.broken(self.sources[place])
        return self._broken[place]

    def scale(self, usual: Literal["auto", "log", "linear"]) -> Literal["auto", "log", "linear"]:
        """The vertical scale: as the view asks for, or else as usual."""
        return usual if self.view.y == "auto" else self.view.y

    def seen(self, series: Series) -> Series:
        """The part of a series within the view's span."""
        if self.view.span is None:
            return series
        inside = (series.steps >= self.view.span[0]) & (series.steps <= self.view.span[1])
        return Series(series.steps[inside], series.values[inside])

    def points(self, tracks: int = 1) -> int:
        """How many points each series may have in a panel with so many series of each run."""
        fair = max(ROWS // max(len(self) * tracks, 1), FEWEST)
        return self.view.points if self.view.points > View.points else min(self.view.points, fair)

    def scalar(self, place: int, name: str) -> Series:
        """A scalar or a total of one run."""
        key = (place, name, "")
        if key not in self._series:
            self._series[key] = self.sources[place].scalar(name)
        return self._series[key]

    def detail(self, place: int, name: str, what: str) -> Series:
        """A number that belongs to a value of one run."""
        key = (place, name, what)
        if key not in self._series:
            self._series[key] = self.sources[place].detail(name, what)
        return self._series[key]

    def parts(self, place: int, name: str) -> Parts:
        """A per-parameter value of one run."""
        if (place, name) not in self._parts:
            self._parts[place, name] = self.sources[place].parts(name)
        return self._parts[place, name]

    def names(self, *kinds: Kind) -> list[str]:
        """Everything of these kinds that any run holds, in the order of appearance."""
        found: dict[str, None] = {}
        for source in self.sources:
            found.update({name: None for name, kind in source.kinds.items() if not kinds or kind in kinds})
        return list(found)

    def holding(self, name: str) -> list[int]:
        """The runs that recorded this."""
        return [place for place, source in enumerate(self.sources) if name in source.kinds]

    def counted(self, place: int, name: str) -> int | None:
        """The step whose histogram is shown: the last one not after the view's step, else the first."""
        steps = self.sources[place].counted(name)
        return int(steps[self._latest(steps)]) if len(steps) else None

    def latest(self, series: Series) -> int:
        """The place in a series that the view's step, or the end of its span, asks for; -1 when it is empty."""
        return self._latest(series.steps) if len(series) else -1

    def _latest(self, steps: Steps) -> int:
        asked = self.end if self.view.step is None else self.view.step
        return max(int(np.searchsorted(steps, asked, "right")) - 1, 0)

    def _reach(self) -> tuple[int, int]:
        ends: list[Steps] = []
        for place, source in enumerate(self.sources):
            names = [name for name, kind in source.kinds.items() if kind is Kind.SCALAR] or list(source.kinds)[:1]
            ends += [self.scalar(place, name).steps[[0, -1]] for name in names if len(self.scalar(place, name))]
            ends += self._taken(place) if ends else []
        if not ends:
            return 0, 1
        together = np.concatenate(ends)
        return int(together.min()), int(together.max())

    def _taken(self, place: int) -> list[Steps]:
        """The last step that the training says it has taken, recorded or not."""
        source, plain = self.sources[place], self.plain[place]
        reached = getattr(plain, "reached", None)
        if not isinstance(reached, int) or reached < 1:
            return []
        step = np.array([reached - 1], dtype=np.int64)
        return [source.times(step) if isinstance(source, Clocked) else step]


def unique(names: list[str]) -> list[str]:
    """Names told apart by a number where two runs share one."""
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        labels.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return labels
