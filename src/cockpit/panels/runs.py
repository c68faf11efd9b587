"""The runs that are shown together: their names, colours and common step axis, each series read once."""

from collections.abc import Sequence
from copy import copy

import numpy as np

from cockpit.core.kinds import Kind
from cockpit.core.source import Parts, Series, Source, Steps
from cockpit.panels._base import View
from cockpit.panels.theme import RUNS

LONG = 1000  # steps from which on their axis is logarithmic by default
ROWS, FEWEST = 1500, 32  # of a panel over all its series, of a series: 20 runs must not cost 20 times what one does


class Runs:
    """Sources under one view."""

    def __init__(self, sources: Sequence[Source], view: View) -> None:
        self.sources, self.view = tuple(sources), view
        self.labels = _unique([source.name for source in self.sources])
        given = view.colours or ()
        self.colours = tuple(
            given[place] if place < len(given) else RUNS[place % len(RUNS)] for place in range(len(self.sources))
        )
        self._series: dict[tuple[int, str, str], Series] = {}
        self._parts: dict[tuple[int, str], Parts] = {}
        self.first, self.last = self._reach()
        planned = [source.metadata.get("steps") for source in self.sources]
        length = max([self.last, *(steps for steps in planned if isinstance(steps, int))])  # no jump when it gets there
        self.log = view.axis == "log" or (view.axis == "auto" and length >= LONG)

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
        return float(self.first), float(max(self.last, self.first + 1))

    def only(self, place: int) -> "Runs":
        """One of the runs, on the common step axis."""
        alone = copy(self)
        alone.sources, alone.labels, alone.colours = (self.sources[place],), [self.labels[place]], self.colours[place:]
        alone._series, alone._parts = {}, {}
        return alone

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
        if not len(steps):
            return None
        if self.view.step is None:
            return int(steps[-1])
        return int(steps[max(int(np.searchsorted(steps, self.view.step, "right")) - 1, 0)])

    def latest(self, series: Series) -> int:
        """The place in a series that the view's step asks for; -1 when it is empty."""
        if self.view.step is None:
            return len(series) - 1
        return max(int(np.searchsorted(series.steps, self.view.step, "right")) - 1, 0) if len(series) else -1

    def _reach(self) -> tuple[int, int]:
        ends: list[Steps] = []
        for place, source in enumerate(self.sources):
            names = [name for name, kind in source.kinds.items() if kind is Kind.SCALAR] or list(source.kinds)[:1]
            ends += [self.scalar(place, name).steps[[0, -1]] for name in names if len(self.scalar(place, name))]
        if not ends:
            return 0, 1
        together = np.concatenate(ends)
        return int(together.min()), int(together.max())


def _unique(names: list[str]) -> list[str]:
    """Names told apart by a number where two runs share one."""
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        labels.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return labels
