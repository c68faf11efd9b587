"""Learning-rate schedules: the factor on the base rate of each parameter group in training epoch 0, 1, 2, ..."""

import math
from collections.abc import Callable

from cockpit.core.errors import CockpitError, unknown
from cockpit.results.schedules import constant, cosine, cosine_wr, linear, ltr, one_cycle, trapezoidal, wsd

Schedule = Callable[[int], float]
STEPS = "0.1@80,120"  # an example, for messages
_RULES = (constant, cosine, cosine_wr, linear, ltr, one_cycle, trapezoidal, wsd)
NAMED = {function.__name__: function for function in _RULES}


def steps(text: str) -> Schedule:
    """Read ``"0.1@80,120"``: times 0.1 from epoch 80 on, and times 0.1 again from epoch 120 on (0.01 of the base rate).

    An epoch counts from 0, so 80 epochs are trained before the first step. A later factor may differ:
    ``"0.1@80,120,0.5@140"``.
    """
    factor, milestones = math.nan, []
    for term in text.split(","):
        before, at, epoch = term.rpartition("@")
        try:
            factor = float(before) if at else factor
            milestones.append((int(epoch), factor))
        except ValueError:
            factor = math.nan
        if not (0 <= factor < math.inf) or milestones[-1][0] < 0:
            raise CockpitError(f"schedule {text!r}: {term!r} is not factor@epoch; give steps like {STEPS!r}")
    return lambda epoch: math.prod(factor for milestone, factor in milestones if epoch >= milestone)


def label(chosen: str | Schedule) -> str:
    """What a result calls a schedule: its name, its text, or the name of the function."""
    return chosen if isinstance(chosen, str) else getattr(chosen, "__name__", type(chosen).__name__)


def _checked(function: Schedule) -> Schedule:
    def factor(epoch: int) -> float:
        value = function(epoch)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise CockpitError(f"the schedule gives {value!r} in epoch {epoch}; return a factor on the rate, 0 or more")
        return float(value)

    return factor


def schedule(chosen: str | Schedule, epochs: int) -> Schedule:
    """The function epoch -> factor of a named schedule, of steps like ``"0.1@80,120"``, or of a function itself."""
    if not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 0:
        raise CockpitError(f"epochs is {epochs!r}; give a whole number, 0 or more")
    if callable(chosen):
        return _checked(chosen)
    if isinstance(chosen, str) and chosen in NAMED:
        named = NAMED[chosen]
        return lambda epoch: named(epoch, epochs)
    if isinstance(chosen, str) and "@" in chosen:
        return steps(chosen)
    raise unknown("schedule", chosen, [*NAMED, f"steps like {STEPS}", "a function epoch -> factor"])


def factors(chosen: str | Schedule, epochs: int) -> list[float]:
    """The factor of each training epoch."""
    function = schedule(chosen, epochs)
    return [function(epoch) for epoch in range(epochs)]
