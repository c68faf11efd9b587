"""Which optimizer is better than which: only by a test, and a difference that may be noise is called noise.

A family of tests is all pairs of one problem, budget, schedule and tuning seed. Each pair is compared over the seeds
that both have; the tuning seed of a tuned cell is none of them, as the setting was chosen by it. The test is a
two-sided t test of the differences, and Holm's method keeps the chance of a false verdict in a family below ``ALPHA``.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any

from cockpit.results.summary import rises
from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.plan import ONESHOT
from cockpit.results.sweeps.student import quantile, two_sided

ALPHA = 0.002
LEVEL = 0.998  # of the interval that is shown, which no other pair changes
LEAST = 2  # seeds that a test needs


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two optimizers on common seeds; ``verdict`` says what a is beside b."""

    a: str
    b: str
    problem: str
    budget: str
    schedule: str
    tuning_seed: int
    difference: float  # mean of a's test values minus b's
    interval: tuple[float, float]
    n: int  # seeds
    p: float
    verdict: str  # "better", "worse" or "noise"

    def plain(self) -> dict[str, Any]:
        """As the JSON of a report has it."""
        named = ("a", "b", "problem", "budget", "schedule", "difference", "interval", "n", "verdict")
        return {name: getattr(self, name) for name in named} | {"interval": list(self.interval)}


def comparisons(cells: Iterable[Cell]) -> list[Comparison]:
    """All comparisons that can be made between cells, family by family; none where a seed diverged."""
    sound = sorted((one for one in cells if one.values and not one.diverged), key=_family)
    found = []
    for _, family in groupby(sound, key=_family):
        tests = [test for a, b in combinations(family, 2) if (test := _test(a, b)) is not None]
        found += _judged(tests)
    return found


def compared_seeds(cell: Cell) -> dict[int, float]:
    """The values of a cell that count in a comparison, by seed."""
    pairs = zip(cell.seeds, cell.values, strict=True)
    tuned = cell.budget != ONESHOT
    return {seed: value for seed, value in pairs if value is not None and not (tuned and seed == cell.tuning_seed)}


def paired(differences: Sequence[float]) -> tuple[float, tuple[float, float], float]:
    """Mean, 99.8% interval and two-sided p of differences between pairs."""
    n = len(differences)
    mean = math.fsum(differences) / n
    error = math.hypot(*(one - mean for one in differences)) / math.sqrt((n - 1) * n)
    if error == 0:  # all the same: nothing is left to chance
        return mean, (mean, mean), 1.0 if mean == 0 else 0.0
    reach = quantile(LEVEL, n - 1) * error
    return mean, (mean - reach, mean + reach), two_sided(mean / error, n - 1)


def holm(ps: Sequence[float], alpha: float = ALPHA) -> list[bool]:
    """Which of several tests are decided, so that the chance of any false decision stays below alpha."""
    decided = [False] * len(ps)
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        if ps[place] > alpha / (len(ps) - rank):
            break
        decided[place] = True
    return decided


_Test = tuple[Cell, Cell, int, float, tuple[float, float], float]


def _family(cell: Cell) -> tuple[Any, ...]:
    return cell.problem, cell.budget, cell.schedule, cell.tuning_seed


def _test(a: Cell, b: Cell) -> _Test | None:
    first, second = compared_seeds(a), compared_seeds(b)
    common = [seed for seed in first if seed in second]
    if len(common) < LEAST:
        return None
    return a, b, len(common), *paired([first[seed] - second[seed] for seed in common])


def _judged(tests: Sequence[_Test]) -> list[Comparison]:
    found = []
    for (a, b, n, mean, interval, p), sure in zip(tests, holm([test[-1] for test in tests]), strict=True):
        good = mean > 0 if rises(a.metric) else mean < 0
        verdict = "noise" if not sure else "better" if good else "worse"
        named = (a.optimizer, b.optimizer, a.problem, a.budget, a.schedule, a.tuning_seed)
        found.append(Comparison(*named, mean, interval, n, p, verdict))
    return found
