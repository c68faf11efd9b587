"""When to measure: a schedule maps a step to True or False."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from cockpit.core.budget import Budget as Budget
from cockpit.core.errors import CockpitError

Schedule = Callable[[int], bool]


def linear(interval: int, offset: int = 0) -> Schedule:
    """Track every ``interval``-th step, from step ``offset`` on."""
    if not isinstance(interval, int) or isinstance(interval, bool) or interval < 1:
        raise CockpitError(f"interval is {interval!r}; give a whole number of steps, 1 or more")

    def schedule(global_step: int) -> bool:
        return global_step >= offset and (global_step - offset) % interval == 0

    def until(global_step: int) -> int:
        """Steps from here to the next one that is tracked."""
        return offset - global_step if global_step < offset else interval - (global_step - offset) % interval

    schedule.until = until  # type: ignore[attr-defined]
    often = "every step" if interval == 1 else f"every {interval} steps"
    schedule.__doc__ = often if offset == 0 else f"{often}, from step {offset} on"
    return schedule


def logarithmic(start: float, end: float, steps: int = 300, base: float = 10, init: bool = True) -> Schedule:
    """Track up to ``steps`` steps, log-spaced from ``base**start`` to ``base**end``, and step 0 if ``init``."""
    if steps < 1 or end < start:
        raise CockpitError(f"logarithmic({start}, {end}, steps={steps}): need start <= end and steps >= 1")
    chosen = sorted({int(step) for step in np.logspace(start, end, num=steps, base=base)} | ({0} if init else set()))

    def schedule(global_step: int) -> bool:
        place = bisect_left(chosen, global_step)
        return place < len(chosen) and chosen[place] == global_step

    schedule.__doc__ = f"{len(chosen)} log-spaced steps up to step {chosen[-1]}"
    return schedule


def as_schedule(every: Any) -> Schedule:
    """Return the schedule that an interval or a callable step -> bool stands for."""
    if callable(every):
        return every  # type: ignore[no-any-return]
    if isinstance(every, int) and not isinstance(every, bool):
        return linear(every)
    raise CockpitError(f"every is {every!r}; give a whole number of steps or a callable step -> bool")
