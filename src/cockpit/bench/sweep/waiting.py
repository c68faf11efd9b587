"""Runs that wait for a worker, and the parcels they are handed out in."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from cockpit.results.sweeps.runs import Spec

FEW, MOST = 16, 448  # runs in a parcel: at first, and ever; rules step all runs in one call, they begin with the most
QUICK, SLOW = 4.0, 10.0  # seconds of a parcel after which the next one is larger, or smaller
DEATHS = 3  # of the worker of a run that is alone, until the run has failed


@dataclass
class _Line:
    """Runs that may go into one pack."""

    size: int
    specs: deque[Spec] = field(default_factory=deque)


class Waiting:
    """Lines of runs, by what may go together."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}
        self._apart: deque[tuple[Spec, ...]] = deque()  # what a worker died of: halves, at last single runs
        self._deaths: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._apart) or any(line.specs for line in self._lines.values())

    def add(self, key: Hashable | None, spec: Spec, size: int = FEW) -> None:
        """Let a run wait; ``key``: None for one that goes alone, ``size``: of the first parcel of such runs."""
        self._lines.setdefault(key, _Line(size)).specs.append(spec)

    def next(self, slots: int) -> tuple[Hashable | None, tuple[Spec, ...]]:
        """The runs of the next parcel, for one of so many workers: from the longest line, so that others grow."""
        if self._apart:
            return None, self._apart.popleft()
        key, line = max(self._lines.items(), key=lambda item: len(item[1].specs))
        others = sum(bool(one.specs) for one in self._lines.values()) - 1
        share = -(
            -len(line.specs) // max(slots - others, 1)
        )  # a line is divided where workers would have nothing to do
        size = 1 if key is None else min(line.size, share)
        return key, tuple(line.specs.popleft() for _ in range(size))

    def took(self, key: Hashable | None, runs: int, seconds: float) -> None:
        """A parcel has taken so long."""
        line = self._lines.get(key)
        if line is not None and runs >= line.size // 2:
            if seconds < QUICK:
                line.size = min(line.size * 2, MOST)
            elif seconds > SLOW and line.size < MOST:
                line.size = max(line.size // 2, 1)

    def died(self, specs: Sequence[Spec]) -> Spec | None:
        """A worker died of these runs: they wait in halves; returns the run that has failed by that, if one has."""
        if len(specs) > 1:
            middle = len(specs) // 2
            self._apart.extend(map(tuple, (specs[:middle], specs[middle:])))
            return None
        for spec in specs:
            self._deaths[spec.id] = self._deaths.get(spec.id, 0) + 1
            if self._deaths[spec.id] >= DEATHS:
                return spec
            self._apart.append((spec,))
        return None
