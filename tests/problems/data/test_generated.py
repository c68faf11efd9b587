"""Data that are drawn: the numbers follow from published seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from cockpit.problems._base import Place, Variant
from cockpit.problems.data.batches import Resident
from cockpit.problems.data.generated import noise_2d, quadratic

PLACE = Place(Path("unused"), download=False)


@pytest.mark.parametrize(("part", "seed"), [("train", 42), ("test", 43), ("valid", 44)])
def test_quadratic(part: str, seed: int) -> None:
    batches = getattr(quadratic(PLACE, Variant()), part)
    expected = np.random.RandomState(seed).normal(0, 0.6, (1000, 100)).astype(np.float32)
    assert np.array_equal(batches.inputs.numpy(), expected)
    assert batches.targets.shape == (1000,)
    assert batches.steps(128) == 7


@pytest.mark.parametrize(("part", "seed"), [("train", 42), ("valid", 44)])
def test_noise_2d(part: str, seed: int) -> None:
    batches = getattr(noise_2d(PLACE, Variant()), part)
    draw = np.random.RandomState(seed)
    x = draw.normal(size=10_000)
    y = draw.normal(size=10_000)
    assert np.array_equal(batches.inputs.numpy(), np.stack([x, y], 1).astype(np.float32))


def test_noise_2d_is_tested_without_noise() -> None:
    test = noise_2d(PLACE, Variant()).test
    assert isinstance(test, Resident)
    assert test.inputs.shape == (10_000, 2)
    assert not test.inputs.any()


@pytest.mark.parametrize("load", [quadratic, noise_2d])
def test_train_eval_is_all_of_train(load: object) -> None:
    splits = load(PLACE, Variant(validation=False))  # type: ignore[operator]
    assert splits.valid is None
    assert len(splits.train_eval) == len(splits.train) == len(splits.test)
    assert torch.equal(next(splits.train_eval.epoch(50))[0], splits.train.inputs[:50])


def test_the_global_state_is_left_alone() -> None:
    np.random.seed(3)
    expected = np.random.uniform()
    np.random.seed(3)
    state = torch.get_rng_state()
    quadratic(PLACE, Variant())
    noise_2d(PLACE, Variant())
    assert np.random.uniform() == expected
    assert torch.equal(state, torch.get_rng_state())
