from __future__ import annotations

import numpy as np
import pytest
from tests.results.sweeps.plans import ADAM

from cockpit.results.sweeps.draws import grid_size, setting
from cockpit.results.sweeps.spaces import axes

# Exponents of ten as the published study had them.
EXPONENTS = {"lr": (-4, 0), "beta1": (-0.301, -0.00043), "beta2": (-0.0969, -0.00043)}


def test_draws_of_the_study() -> None:
    found = setting("study", 42, 43, axes(ADAM, rounded=True))
    assert [f"{value:.7f}" for value in found.values()] == ["0.0110405", "0.6675153", "0.8404788"]
    numbers = np.random.RandomState(42).random_sample(75 * 3).reshape(75, 3)
    for trial in range(75):
        expected = [10 ** (a + u * (b - a)) for u, (a, b) in zip(numbers[trial], EXPONENTS.values(), strict=True)]
        assert list(setting("study", 42, trial, axes(ADAM, rounded=True)).values()) == pytest.approx(
            expected, rel=1e-14
        )


def test_one_number_of_the_study_for_each_hyperparameter_that_is_tuned() -> None:
    space = {"lr": {"log": [1e-4, 1.0]}, "eps": 1e-8, "k": {"int": [1, 20]}}
    numbers = np.random.RandomState(7).random_sample(20)
    found = setting("study", 7, 9, axes(space, rounded=True))
    assert found == {"lr": 10 ** (-4 + 4 * numbers[18]), "eps": 1e-8, "k": 1 + int(20 * numbers[19])}


def test_a_trial_depends_on_its_seed_and_number_alone() -> None:
    space = axes(ADAM)
    first = [setting("random", 42, trial, space) for trial in range(75)]
    assert setting("random", 42, 60, space) == first[60]
    assert len({tuple(one.values()) for one in first}) == 75
    assert all(setting("random", 7, trial, space) != first[trial] for trial in range(75))
    more = axes(ADAM | {"eps": {"log": [1e-9, 1e-3]}})
    assert {**setting("random", 42, 3, more), "eps": None} == {**first[3], "eps": None}


def test_random_draws_are_spread_evenly() -> None:
    space = axes({"x": {"uniform": [0, 1]}, "y": {"uniform": [0, 1]}})
    drawn = np.array([list(setting("random", 1, trial, space).values()) for trial in range(2000)])
    assert np.abs(drawn.mean(0) - 0.5).max() < 0.03
    assert np.abs(drawn.var(0) - 1 / 12).max() < 0.01
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.08
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.08


def test_grid_is_the_product() -> None:
    space = axes({"lr": {"choice": [1, 2, 3]}, "k": {"choice": ["a", "b"]}, "eps": 0.5})
    assert grid_size(space) == 6
    found = [setting("grid", 42, trial, space) for trial in range(6)]
    assert [(one["lr"], one["k"]) for one in found] == [(lr, k) for lr in (1, 2, 3) for k in ("a", "b")]
    assert {one["eps"] for one in found} == {0.5}
