"""What the quantities that are due at a step need, all together."""

from collections.abc import Sequence
from dataclasses import dataclass

from cockpit.engine.needs import LINE, Need
from cockpit.measurements import reads_numbers_only
from cockpit.quantities._base import Moment, Quantity


@dataclass(frozen=True, slots=True)
class Agenda:
    """The needs of one step."""

    needs: frozenset[Need] = frozenset()
    due: frozenset[Need] = frozenset()  # without those of what began at the step before
    leaving: bool = False  # a line begins here
    constant: bool = False  # the quantities read nothing but numbers, and need the same every time

    @classmethod
    def of(cls, due: Sequence[Quantity], arriving: Sequence[Quantity]) -> "Agenda":
        """Ask the quantities."""
        here = frozenset[Need]().union(*(quantity.needs for quantity in due))
        needs = here.union(*(quantity.needs for quantity in arriving))
        leaving = any(LINE in quantity.needs for quantity in due if quantity.moment is Moment.NEXT)
        return cls(needs, here, leaving, all(reads_numbers_only(quantity) for quantity in (*due, *arriving)))
