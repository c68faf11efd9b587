"""Sizes of splits: the published ones, and the same shares of a smaller copy."""

from __future__ import annotations

import pytest
import torch

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batches, Splits, Variant
from cockpit.problems.data.splits import Sizes, official, resident, sizes

HELD, ALL = Variant(), Variant(validation=False)


@pytest.mark.parametrize(
    ("dataset", "variant", "expected"),
    [
        ("mnist", HELD, Sizes(50_000, 10_000, 10_000, 10_000)),
        ("fashion_mnist", HELD, Sizes(50_000, 10_000, 10_000, 10_000)),
        ("mnist", ALL, Sizes(60_000, 10_000, 0, 10_000)),
        ("cifar10", HELD, Sizes(40_000, 10_000, 10_000, 10_000)),
        ("cifar100", HELD, Sizes(40_000, 10_000, 10_000, 10_000)),
        ("cifar100", ALL, Sizes(50_000, 10_000, 0, 10_000)),
        ("svhn", HELD, Sizes(47_225, 26_032, 26_032, 26_032)),
        ("svhn", ALL, Sizes(73_257, 26_032, 0, 26_032)),
        ("imagenet", HELD, Sizes(1_231_167, 50_000, 50_000, 50_000)),
    ],
)
def test_official_sizes(dataset: str, variant: Variant, expected: Sizes) -> None:
    assert sizes(official(dataset).train, official(dataset).test, dataset, variant) == expected


@pytest.mark.parametrize(
    ("dataset", "size", "steps"),
    [("mnist", 128, 390), ("mnist", 64, 781), ("cifar10", 128, 312), ("cifar100", 256, 156), ("svhn", 128, 368)],
)
def test_steps_of_an_epoch(dataset: str, size: int, steps: int) -> None:
    assert sizes(official(dataset).train, official(dataset).test, dataset, HELD).train // size == steps


def test_a_smaller_copy_holds_out_the_same_share() -> None:
    assert sizes(64, 16, "mnist", HELD) == Sizes(54, 16, 10, 16)
    assert sizes(64, 60, "mnist", HELD).train_eval == 54  # no more than there are


def test_unknown_data_set() -> None:
    with pytest.raises(CockpitError, match="did you mean 'cifar10'"):
        sizes(1, 1, "cifar11", HELD)


def made(dataset: str, variant: Variant) -> Splits:
    train, test = torch.arange(50), torch.arange(100, 110)
    return resident(dataset, (train, train), (test, test), variant)


def order(batches: Batches | None, seed: int | None = None) -> list[int]:
    assert batches is not None
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return [int(target) for _, target in batches.epoch(1, generator)]


def test_the_first_are_held_out() -> None:
    splits = made("cifar10", HELD)
    assert order(splits.valid) == list(range(10))
    assert order(splits.train) == list(range(10, 50))
    assert order(splits.train_eval) == list(range(10, 20))
    assert order(splits.test) == list(range(100, 110))
    assert set(order(splits.train, 0)) == set(range(10, 50))


def test_nothing_held_out() -> None:
    splits = made("cifar10", ALL)
    assert splits.valid is None
    assert len(splits.train) == 50
    assert len(splits.train_eval) == 10


@pytest.mark.parametrize(("dataset", "redrawn"), [("cifar10", True), ("cifar100", False), ("mnist", False)])
def test_validation_that_is_trained_on(dataset: str, redrawn: bool) -> None:
    splits, plain = made(dataset, Variant(held_out=False)), made(dataset, HELD)
    assert splits.valid is not None
    assert plain.valid is not None
    assert (len(splits.train), len(splits.valid)) == (len(plain.train), len(plain.valid))
    trained = {sample for seed in range(20) for sample in order(splits.train, seed)}
    assert trained == set(range(50)) if redrawn else trained == set(order(plain.train))
    assert order(splits.valid) == list(range(len(splits.valid)))
