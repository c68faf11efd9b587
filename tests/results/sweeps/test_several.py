"""The expected best of m runs against all subsets, one by one."""

from __future__ import annotations

import random
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import pytest
from tests.results.sweeps.plans import QUADRATIC, SGD, entry, plan
from tests.results.sweeps.test_cells import filled

from cockpit.results.sweeps.gains import by_key
from cockpit.results.sweeps.plan import Contender
from cockpit.results.sweeps.reading import End, read
from cockpit.results.sweeps.runs import Spec
from cockpit.results.sweeps.several import expected, several


def slow(ends: list[End], m: int, up: bool) -> tuple[float | None, float]:
    """The same, subset by subset."""
    values, none = [], 0
    for subset in combinations(range(len(ends)), m):
        alive = [place for place in subset if ends[place].validation is not None]
        if not alive:
            none += 1
            continue
        best = (max if up else min)(ends[place].validation for place in alive)  # type: ignore[type-var]
        values.append(next(ends[place].test for place in alive if ends[place].validation == best))
    found = sum(values) / len(values) if values else None  # type: ignore[arg-type]
    return found, none / comb(len(ends), m)


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("lost", [0, 3, 8])
def test_all_subsets(up: bool, lost: int) -> None:
    lot = random.Random(lost)
    values = [lot.choice([0.1, 0.2, 0.3, 0.4, 0.5]) for _ in range(8)]  # with ties, which the first one wins
    ends = [End(value, value + lot.gauss(0, 1)) for value in values]
    for place in lot.sample(range(8), lost):
        ends[place] = End(None, None)
    for m in range(1, 9):
        value, none = expected(ends, m, up)
        wanted, never = slow(ends, m, up)
        assert none == pytest.approx(never if lost < 8 else 1.0)
        assert value == (None if wanted is None else pytest.approx(wanted))


def test_the_ends_of_the_curve() -> None:
    ends = [End(3.0, 30.0), End(1.0, 10.0), End(2.0, 20.0)]
    assert expected(ends, 1, False) == (pytest.approx(20.0), 0.0)  # the mean of all
    assert expected(ends, 3, False) == (10.0, 0.0)  # the best of all
    assert expected(ends, 3, True) == (30.0, 0.0)
    assert expected(ends, 4, False) == (None, 1.0)
    many = [End(float(place), float(place)) for place in range(75)]
    assert 0 < (expected(many, 15, False)[0] or 0) < 10


def test_of_a_sweep(tmp_path: Path) -> None:
    """Untuned runs are those of the tuning seed; a refined setting is no random one."""
    adam = Contender("Adam", 1, {"lr": 1e-3}, {"lr": {"log": [1e-4, 1.0]}}, studied=True)
    wanted = plan(problems=(QUADRATIC,), optimizers=(SGD, adam), budgets=("oneshot", "large"), seeds=2)

    def make(spec: Spec) -> Any:
        rate = spec.hyperparameters["lr"]
        if spec.contender.name == "Adam" and rate > 0.5:
            return entry(spec, state="diverged", diverged=1, length=1)
        return entry(spec, valid=abs(rate - 0.1), test=100 * rate + (spec.seed == 43))

    reading = read(filled(tmp_path, wanted, make))
    (one,) = several([reading], by_key(reading.cells))
    assert (one.problem, one.schedule, one.tuning_seed, one.metric) == ("quadratic_deep", "constant", 42, "test_loss")
    assert one.optimizers == 2
    assert one.untuned == (pytest.approx((1.0 + 0.1) / 2), pytest.approx(1.0))  # 0.01 is nearer to 0.1 than 0.001
    for group, runs in reading.tuned():
        ends = [reading.end(specs[0]) for specs in reading.drawn(runs)]
        assert len(ends) == 50
        assert len(reading.trials(runs)) == 75
        for m in (1, 2):
            value, lost = slow([end for end in ends if end is not None], m, False)
            assert one.tuned[group.contender.name][m - 1] == pytest.approx(value)
            assert one.lost[group.contender.name][m - 1] == pytest.approx(lost)
    assert one.lost["Adam"][0] > 0
    assert one.median[0] == pytest.approx((one.tuned["SGD"][0] + one.tuned["Adam"][0]) / 2)  # type: ignore[operator]
