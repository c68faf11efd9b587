"""When to measure: schedules map a step to a truth value."""

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from cockpit.core.errors import CockpitError

Schedule = Callable[[int], bool]


def linear(interval: int, offset: int = 0) -> Schedule:
    """Track every ``interval``-th step, beginning at ``offset``."""
    if not isinstance(interval, int) or isinstance(interval, bool) or interval < 1:
        raise CockpitError(f"interval is {interval!r}; give a whole number of steps, 1 or more")

    def schedule(global_step: int) -> bool:
        return global_step >= offset and (global_step - offset) % interval == 0

    schedule.__doc__ = f"Track every {interval} step(s), offset {offset}."
    return schedule


def logarithmic(start: float, end: float, steps: int = 300, base: float = 10, init: bool = True) -> Schedule:
    """Track about ``steps`` steps, log-spaced from ``base**start`` to ``base**end``, and step 0 if ``init``."""
    if steps < 1 or end < start:
        raise CockpitError(f"logarithmic({start}, {end}, steps={steps}): need start <= end and steps >= 1")
    chosen = sorted({int(step) for step in np.logspace(start, end, num=steps, base=base)} | ({0} if init else set()))

    def schedule(global_step: int) -> bool:
        place = bisect_left(chosen, global_step)
        return place < len(chosen) and chosen[place] == global_step

    schedule.__doc__ = f"Track {len(chosen)} log-spaced steps up to {chosen[-1]}."
    return schedule


class Budget:
    """Track as often as a share of the training time allows; the first ``grace`` seconds of tracking are free."""

    def __init__(self, share: float, grace: float = 10.0, clock: Callable[[], float] = time.perf_counter) -> None:
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise CockpitError(f"budget is {share!r}; it is a share of the training time: give a number in (0, 1]")
        if isinstance(grace, bool) or not isinstance(grace, int | float) or not grace >= 0:
            raise CockpitError(f"grace is {grace!r}; give a number of seconds, 0 or more")
        self.share, self.grace, self.spent, self.tracked = float(share), float(grace), 0.0, 0
        self._clock, self._begin = clock, clock()

    def spend(self, seconds: float) -> None:
        """Book what one tracked step cost."""
        self.spent += seconds
        self.tracked += 1

    def __call__(self, global_step: int) -> bool:
        """Whether the budget allows this step."""
        charged = self.spent - self.grace
        if charged <= 0:
            return True
        mean = self.spent / self.tracked
        return charged + mean <= self.share * (self._clock() - self._begin)


def as_schedule(every: Any) -> Schedule:
    """Turn an interval or a callable step -> bool into a schedule."""
    if callable(every):
        return every  # type: ignore[no-any-return]
    if isinstance(every, int) and not isinstance(every, bool):
        return linear(every)
    raise CockpitError(f"every is {every!r}; give a whole number of steps or a callable step -> bool")
