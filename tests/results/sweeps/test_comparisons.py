"""Verdicts against a slow reference, written from the definitions alone."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from tests.results.sweeps.test_student import slow

from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.comparisons import ALPHA, comparisons, holm, paired

T999 = {1: 318.3088390, 2: 22.3271248, 3: 10.2145319, 8: 4.5007909, 9: 4.2968057}  # by freedom


def cell(optimizer: str, values: list[float | None], **changes: Any) -> Cell:
    """A cell with these test values of seeds 42, 43, ..."""
    known = {
        **{"problem": "p", "budget": "small", "schedule": "constant", "tuning_seed": 42, "metric": "test_loss"},
        **{"mean": 1.0, "std": 0.1, "train": {"mean": None, "std": None, "values": []}, "hyperparameters": {"lr": 0.1}},
        **{"trial": 3, "epoch": 2, "validation": 1.0, "published": None, "missing": 0},
        "diverged": values.count(None),
        "seeds": list(range(42, 42 + len(values))),
    }
    return Cell(optimizer=optimizer, values=values, **known | changes)


def reference(cells: list[Cell]) -> dict[tuple[str, str], tuple[float, float, float, int, str]]:
    """Difference, interval, number and verdict of all pairs of one family."""
    tests = {}
    for a, b in combinations(cells, 2):
        if None in a.values or None in b.values:
            continue
        left, right = dict(zip(a.seeds, a.values, strict=True)), dict(zip(b.seeds, b.values, strict=True))
        seeds = [seed for seed in left if seed in right and (a.budget == "oneshot" or seed != a.tuning_seed)]
        if len(seeds) < 2:
            continue
        differences = [(left[seed] or 0.0) - (right[seed] or 0.0) for seed in seeds]
        mean, error = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(len(seeds))
        p = slow(abs(mean) / error, len(seeds) - 1, 4000)
        reach = T999[len(seeds) - 1] * error
        tests[a.optimizer, b.optimizer] = [mean, mean - reach, mean + reach, len(seeds), p]
    order = sorted(tests, key=lambda pair: tests[pair][4])
    verdicts, going = {}, True
    for rank, pair in enumerate(order):
        going = going and tests[pair][4] <= 0.002 / (len(order) - rank)
        better = tests[pair][0] < 0
        verdicts[pair] = "noise" if not going else "better" if better else "worse"
    return {pair: (*tests[pair][:4], verdicts[pair]) for pair in tests}  # type: ignore[misc]


@pytest.mark.parametrize("budget", ["oneshot", "small"])
def test_against_the_definitions(budget: str) -> None:
    lot = random.Random(3)
    levels = {"SGD": 1.0, "Adam": 1.02, "NAG": 1.3, "RAdam": 1.31, "RMSprop": 1.9}
    shared = [lot.gauss(0, 0.2) for _ in range(10)]  # what a seed does to all
    cells = [
        cell(name, [level + noise + lot.gauss(0, 0.02) for noise in shared], budget=budget)
        for name, level in levels.items()
    ]
    found = {(one.a, one.b): one for one in comparisons(cells)}
    expected = reference(cells)
    assert found.keys() == expected.keys()
    assert len(found) == 10
    for pair, (mean, low, high, n, verdict) in expected.items():
        one = found[pair]
        assert one.difference == pytest.approx(mean)
        assert one.interval == pytest.approx((low, high), rel=1e-6)
        assert (one.n, one.verdict) == (n, verdict)
    assert {one.n for one in found.values()} == {10 if budget == "oneshot" else 9}
    assert {one.verdict for one in found.values()} == {"better", "noise"}


def test_better_has_a_direction() -> None:
    cells = [cell("A", [1.0, 1.1, 1.2, 1.3]), cell("B", [3.0, 3.1, 3.2, 3.3])]
    (one,) = comparisons(cells)
    assert (one.verdict, one.n) == ("better", 3)  # of losses
    (one,) = comparisons([replace(held, metric="test_accuracy") for held in cells])
    assert one.verdict == "worse"
    assert one.plain() == {
        **{"a": "A", "b": "B", "problem": "p", "budget": "small", "schedule": "constant"},
        **{"difference": one.difference, "interval": list(one.interval), "n": 3, "verdict": "worse"},
    }


def test_what_is_not_compared() -> None:
    good = cell("A", [1.0, 1.1, 1.2])
    assert comparisons([good, cell("B", [1.0, None, 1.2])]) == []  # a seed diverged
    assert comparisons([good, cell("B", [1.0, 1.1])]) == []  # a single seed beside the tuning seed
    assert len(comparisons([replace(one, budget="oneshot") for one in (good, cell("B", [1.0, 1.3]))])) == 1
    for change in ({"problem": "q"}, {"budget": "medium"}, {"schedule": "cosine"}, {"tuning_seed": 7}):
        assert comparisons([good, cell("B", [1.0, 1.1, 1.2], **change)]) == []
    assert comparisons([good, cell("B", [])]) == []


def test_a_family_is_its_own() -> None:
    """More pairs make a verdict harder, but only those of the same problem, budget, schedule and tuning seed."""
    apart = [cell("A", [1.0, 1.0, 1.1, 1.2]), cell("B", [1.0, 1.2, 1.31, 1.41])]
    (one,) = comparisons(apart)
    assert one.p < ALPHA
    assert one.verdict == "better"
    others = [cell(name, [1.0, 5.0, 1.0, 9.0 + place]) for place, name in enumerate("CDEFGHIJ")]
    assert next(one for one in comparisons([*apart, *others]) if (one.a, one.b) == ("A", "B")).verdict == "noise"
    away = [replace(one, problem="q") for one in others]
    assert next(one for one in comparisons([*apart, *away]) if (one.a, one.b) == ("A", "B")).verdict == "better"


def test_equal_differences() -> None:
    assert paired([0.0, 0.0, 0.0]) == (0.0, (0.0, 0.0), 1.0)
    assert paired([0.5, 0.5]) == (0.5, (0.5, 0.5), 0.0)


def test_losses_whose_squares_are_too_large() -> None:
    mean, interval, p = paired([1e200, 3e200, 2e200])
    assert (mean, p) == (pytest.approx(2e200), pytest.approx(paired([1.0, 3.0, 2.0])[2]))
    assert interval[0] < mean < interval[1]


def test_holm() -> None:
    assert holm([]) == []
    assert holm([0.001]) == [True]
    assert holm([0.0011, 0.0005, 0.5]) == [False, True, False]  # 0.0011 > 0.002 / 2, 0.0005 <= 0.002 / 3
    assert holm([0.0019, 0.0005, 0.0009]) == [True, True, True]
    assert holm([0.0005, 0.0021, 0.0011]) == [True, False, False]  # one undecided test stops all after it
