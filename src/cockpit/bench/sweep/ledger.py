"""Which runs a sweep needs: named as soon as the results they depend on are there."""

from cockpit.results.sweeps.plan import SweepPlan
from cockpit.results.sweeps.runs import Group, Spec, groups
from cockpit.results.sweeps.selection import chosen
from cockpit.results.sweeps.status import Count, count
from cockpit.results.sweeps.store import Row


class Ledger:
    """The runs that are named, and which of them have ended."""

    def __init__(self, plan: SweepPlan, rows: dict[str, Row]) -> None:
        self.rows = rows
        self.specs: dict[str, Spec] = {}  # by id
        self.groups = groups(plan)
        self._open: list[set[str]] = [set() for _ in self.groups]  # named, not ended
        self._unknown = [0 for _ in self.groups]
        self._needing: dict[str, list[int]] = {}  # groups, by the run that they wait for

    def begin(self) -> list[tuple[Group, Spec]]:
        """All runs that can be named and are to be trained."""
        return [one for place in range(len(self.groups)) for one in self._name(place)]

    def ended(self, rows: dict[str, Row]) -> list[tuple[Group, Spec]]:
        """Some runs have ended; returns those that can be named now."""
        self.rows |= rows
        ready: dict[int, None] = {}
        for id in rows:
            for place in self._needing.pop(id, ()):
                self._open[place].discard(id)
                if not self._open[place] and self._unknown[place]:
                    ready[place] = None
        return [one for place in ready for one in self._name(place)]

    def count(self) -> Count:
        """How far all of it is."""
        ended = {id: self.rows[id] for id in self.specs if id in self.rows}
        return Count(self.specs, sum(self._unknown), ended)

    def _name(self, place: int) -> list[tuple[Group, Spec]]:
        """The runs of a group that nobody has named before, and that have not ended."""
        group = self.groups[place]
        cells = chosen(group, self.rows)
        self._unknown[place] = count(cells, {}).unknown
        named = {spec.id: spec for cell in cells for spec in cell.specs}
        new = [spec for id, spec in named.items() if id not in self.specs and id not in self.rows]
        self.specs |= named
        self._open[place] = named.keys() - self.rows.keys()
        for id in self._open[place]:
            self._needing.setdefault(id, []).append(place)
        return [(group, spec) for spec in new]
