from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cockpit.bench import runtime
from cockpit.bench.optimizers import Choice, choose
from cockpit.bench.runtime import Runtime, estimate
from cockpit.core.errors import CockpitError


def clock(**seconds: list[float]) -> tuple[Callable[[Choice], float], list[str]]:
    """Training that takes these seconds, one after the other, and who was trained."""
    left, trained = {name: list(times) for name, times in seconds.items()}, []

    def train(choice: Choice) -> float:
        trained.append(choice.name)
        return left[choice.name].pop(0)

    return train, trained


def test_ratio_of_pairs_without_the_first_run() -> None:
    train, trained = clock(SGD=[50, 1, 2, 4], Adam=[90, 2, 6, 16])
    found = estimate(choose("Adam"), runs=3, train=train)
    assert found.ratio_mean == pytest.approx(3)
    assert found.ratio_std == pytest.approx((2 / 3) ** 0.5)
    assert (found.seconds, found.seconds_sgd) == ([2, 6, 16], [1, 2, 4])
    assert trained == ["SGD", "Adam", "SGD", "Adam", "Adam", "SGD", "SGD", "Adam"]


def test_against_another_optimizer() -> None:
    train, _ = clock(NAG=[1, 1], Adam=[9, 3])
    assert estimate(choose("Adam"), runs=1, against=choose("NAG"), train=train) == Runtime(3, 0, [3], [1])


def test_problem_and_numbers_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def train_seconds(problem: Any, choice: Choice, *numbers: Any) -> float:
        asked.append((problem, choice.name, *numbers))
        return 2.0 if choice.name == "Adam" else 1.0

    monkeypatch.setattr(runtime, "train_seconds", train_seconds)
    assert estimate(choose("Adam")).ratio_mean == 2
    assert len(asked) == 12
    assert set(asked) == {("mnist_mlp", name, 3, 128, None, None) for name in ("SGD", "Adam")}


def test_real_training_takes_time() -> None:
    found = estimate(choose("Adam"), problem="quadratic_deep", epochs=1, runs=2, device="cpu")
    assert min(found.seconds + found.seconds_sgd) > 0
    assert found.ratio_mean > 0


@pytest.mark.parametrize("runs", [0, -1, 1.5, True])
def test_wrong_number_of_runs(runs: Any) -> None:
    with pytest.raises(CockpitError, match="runs is"):
        estimate(choose("Adam"), runs=runs, train=lambda choice: 1.0)


def test_no_time() -> None:
    with pytest.raises(CockpitError, match="a run took no time"):
        estimate(choose("Adam"), runs=1, train=lambda choice: 0.0)
