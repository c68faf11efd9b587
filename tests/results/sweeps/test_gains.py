"""What tuning gave, against plain arithmetic."""

from __future__ import annotations

import statistics

import pytest
from tests.results.sweeps.test_comparisons import cell

from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.gains import gains, matrices, usual


def made(optimizer: str, budget: str, mean: float | None, schedule: str = "constant", **changes: object) -> Cell:
    values = [None if mean is None else mean + 0.5, None if mean is None else mean - 0.5]
    return cell(optimizer, values, budget=budget, schedule=schedule, mean=mean, std=0.5, **changes)


CELLS = [
    made("SGD", "oneshot", 10.0),
    made("Adam", "oneshot", 20.0),
    made("SGD", "small", 8.0),
    made("Adam", "small", 5.0),
    made("SGD", "oneshot", 12.0, "cosine"),
    made("Adam", "small", None, "cosine"),
]


def test_a_matrix_is_untuned_by_tuned() -> None:
    first, second = matrices(CELLS)
    assert (first.untuned, first.tuned, first.budget, first.schedule) == (
        ("SGD", "Adam"),
        ("SGD", "Adam"),
        "small",
        "constant",
    )
    assert first.values == ((2.0, 5.0), (12.0, 15.0))  # losses that fell
    assert (second.untuned, second.tuned, second.values) == (("SGD",), ("Adam",), ((None,),))
    rising = [made(one.optimizer, one.budget, one.mean, metric="test_accuracy") for one in CELLS[:4]]
    assert matrices(rising)[0].values == ((-2.0, -5.0), (-12.0, -15.0))


def test_by_the_tuning_seed_alone() -> None:
    shifted = [made("SGD", "oneshot", 10.0), cell("SGD", [7.0, 1.0], budget="small", mean=4.0)]
    assert matrices(shifted)[0].values == ((6.0,),)
    assert matrices(shifted, alone=True)[0].values == ((10.5 - 7.0,),)
    assert matrices(shifted, alone=True)[0].alone


def test_gains_are_relative() -> None:
    found = {(one.optimizer, one.budget, one.schedule): one.gain for one in gains(CELLS)}
    assert found == {
        ("SGD", "small", "constant"): pytest.approx(0.2),
        ("Adam", "small", "constant"): pytest.approx(0.75),
        ("SGD", "oneshot", "cosine"): pytest.approx(-0.2),
        ("Adam", "small", "cosine"): None,
    }
    below = [made("SGD", "oneshot", -10.0), made("SGD", "small", -12.0)]
    assert gains(below)[0].gain == pytest.approx(0.2)
    assert gains([made("SGD", "oneshot", 0.0), made("SGD", "small", -1.0)])[0].gain is None
    assert gains([made("SGD", "small", 1.0)]) == []  # no defaults to compare with


def test_the_usual_gain() -> None:
    values = [0.1, 0.3, 0.2, 0.8]
    cells = [made(f"O{place}", "oneshot", 1.0) for place in range(4)]
    cells += [made(f"O{place}", "small", 1.0 - value) for place, value in enumerate(values)]
    (one,) = usual(gains(cells))
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    assert (one.budget, one.schedule, one.n) == ("small", "constant", 4)
    assert (one.lower, one.median, one.upper) == pytest.approx(tuple(quartiles))
    assert usual([]) == []
