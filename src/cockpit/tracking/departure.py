"""A step seen along its own direction: it begins at one tracked step and is judged at the next."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite

from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.needs import LINE, UPDATE
from cockpit.engine.step.line import Line, LineEnd
from cockpit.engine.step.observation import Observation
from cockpit.engine.step.prepared import START
from cockpit.quantities._base import Quantity


@dataclass
class Departure:
    """The start of a step that is judged at its end."""

    step: int
    quantities: Sequence[Quantity]
    direction: dict[str, Tensor] = field(default_factory=dict)
    length: float = 0.0
    end: LineEnd | str = "the optimizer took no step"

    def leave(self, step: Observation) -> None:
        """The numbers at the start are there."""
        length = step.length() if UPDATE in step.numbers else 0.0
        if length == 0 or not isfinite(length):
            self.end = "the step has length zero" if length == 0 else "the step is not finite"
            return
        self.length = length
        try:
            self.end = step.end(length, START)
        except Undefined as reason:
            self.end = str(reason)

    def arrive(self, step: Observation) -> None:
        """The numbers at the end are there: close the line."""
        if isinstance(self.end, str):
            step.line = self.end
            return
        try:
            step.line = Line(self.length, self.end, step.end(self.length, LINE))
        except Undefined as reason:
            step.line = str(reason)
