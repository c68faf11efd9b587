"""What the quantities that are due at a step need, all together."""

from collections.abc import Sequence
from dataclasses import dataclass

from cockpit.engine.needs import LINE, Need
from cockpit.quantities._base import Moment, Quantity
from cockpit.tracking.measurements import reads_numbers_only

Quantities = tuple[Quantity, ...]


@dataclass(frozen=True, slots=True)
class Agenda:
    """The needs of one step."""

    needs: frozenset[Need] = frozenset()
    due: frozenset[Need] = frozenset()  # without those of what began at the step before
    leaving: bool = False  # a line begins here
    constant: bool = False  # the quantities read nothing but numbers, and need the same every time
    now: Quantities = ()  # measured when the gradients are complete
    after: Quantities = ()  # when the optimizer has stepped
    later: Quantities = ()  # at the next step
    grasping: Quantities = ()  # may ask to keep the graph, as quantities of the paper's kind do

    @classmethod
    def of(cls, due: Sequence[Quantity], arriving: Sequence[Quantity]) -> "Agenda":
        """Ask the quantities."""
        here = frozenset[Need]().union(*(quantity.needs for quantity in due))
        leaving = any(LINE in quantity.needs for quantity in due if quantity.moment is Moment.NEXT)
        needs = here.union(*(quantity.needs for quantity in arriving))
        constant = all(reads_numbers_only(quantity) for quantity in (*due, *arriving))
        now, after, later = (
            tuple(quantity for quantity in due if quantity.moment is moment)
            for moment in (Moment.BACKWARD, Moment.UPDATE, Moment.NEXT)
        )
        grasping = tuple(quantity for quantity in due if type(quantity).create_graph is not Quantity.create_graph)
        return cls(needs, here, leaving, constant, now, after, later, grasping)
