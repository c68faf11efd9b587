"""Which quantities are due at a step: by schedules, or by a budget that takes the time of every step."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from cockpit.core.budget import Budget
from cockpit.core.kinds import Cost
from cockpit.core.schedule import Schedule
from cockpit.quantities._base import Quantity


def tier_of(quantity: Quantity) -> int:
    """Return the tier of a quantity for the budget; outside the presets a quantity may cost anything."""
    return (quantity.cost or Cost.FULL).value


class Pace:
    """Asks schedules and the budget, and tells the budget how long steps took."""

    def __init__(self, schedule: Schedule, device: torch.device | None) -> None:
        self.schedule = schedule
        self._timeline = Timeline(device) if device is not None and device.type == "cuda" else None
        self._under_way: tuple[int, int] | None = None  # the step and the tier that is tracked in it
        self._own = 0.0
        self.resting = 0  #: steps from here that are certainly not due: whoever counts steps passes over them
        self.rested = 0  #: how many were passed over
        self._asked: tuple[int, bool] = (-1, False)

    def due(self, step: int, quantities: Sequence[Quantity]) -> list[Quantity]:
        """The quantities to be measured at a step; asked for every step that is not rested at."""
        if isinstance(self.schedule, Budget):
            return self._affordable(self.schedule, step, quantities)
        if not self._scheduled(quantities):
            if self.schedule(step):
                return list(quantities)
            until = getattr(self.schedule, "until", None)  # regular ones can tell
            self.resting = 0 if until is None else until(step) - 1
            return []
        by_default, due = None, []
        for quantity in quantities:
            if quantity.scheduled:
                wanted = quantity.should_compute(step)
            else:
                wanted = by_default = bool(self.schedule(step)) if by_default is None else by_default
            if wanted:
                due.append(quantity)
        return due

    def spend(self, seconds: float) -> None:
        """A tracked step is over, and has cost us so much."""
        self._own += seconds

    def _affordable(self, budget: Budget, step: int, quantities: Sequence[Quantity]) -> list[Quantity]:
        self._end(budget)
        tier, due = budget.due(step), list[Quantity]()
        if tier or self._scheduled(quantities):
            due = [q for q in quantities if (q.should_compute(step) if q.scheduled else tier_of(q) <= tier)]
            tier = max([tier, *map(tier_of, due)])
        self._under_way, self._own, self.rested = (step, tier), 0.0, 0
        self.resting = 0 if tier or self._asked[1] else budget.idle()
        if self._timeline is None:
            budget.began()
        return due

    def _end(self, budget: Budget) -> None:
        """The step under way is over, and with it the plain ones that were rested at."""
        if self._timeline is not None:
            self._timeline.mark(budget, self._under_way, self._own, 1 + self.rested)
        elif self._under_way is not None:
            budget.ended(*self._under_way, own=self._own, count=1 + self.rested)

    def _scheduled(self, quantities: Sequence[Quantity]) -> bool:
        """Whether any quantity has a schedule of its own."""
        if self._asked[0] != len(quantities):
            self._asked = len(quantities), any(quantity.scheduled for quantity in quantities)
        return self._asked[1]


class Timeline:
    """Times of steps on a GPU, where work goes on after the step that started it; known some steps later."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._last: Any = None
        self._queue: deque[tuple[tuple[int, int], float, int, Any, Any]] = deque()
        self._spare: list[Any] = []

    def mark(self, budget: Budget, step: tuple[int, int] | None, own: float, count: int) -> None:
        """A step ends here; tell the budget about those that are known to be over."""
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        if step is not None and self._last is not None:
            self._queue.append((step, own, count, self._last, event))
        self._last = event
        while self._queue and self._queue[0][4].query():
            (number, tier), spent, steps, begin, end = self._queue.popleft()
            budget.book(number, begin.elapsed_time(end) / 1e3, tier, spent, 0.0, steps)
            self._spare.append(begin)
