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
        ("svhn", Variant(validation=False, cut=True), Sizes(64_000, 26_032, 0, 26_032)),  # 500 steps, as in table 5.2
        ("svhn", Variant(cut=True), Sizes(37_968, 26_032, 26_032, 26_032)),
        ("cifar10", Variant(cut=True), Sizes(40_000, 10_000, 10_000, 10_000)),  # nothing was lost there
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


@pytest.mark.parametrize(("validation", "first"), [(True, 17), (False, 0)])
def test_the_end_is_cut_off(validation: bool, first: int) -> None:
    splits = made("svhn", Variant(validation=validation, cut=True))
    assert order(splits.train) == list(range(first, 43))
    assert (splits.valid is None) is not validation
    redrawn = made("svhn", Variant(validation=validation, cut=True, held_out=False))
    assert set(order(redrawn.train, 1)) | set(order(redrawn.valid, 1) if validation else ()) == set(range(43))


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


def fixed(dataset: str, epoch: int) -> list[int]:
    splits = made(dataset, Variant(validation=False, order="fixed"))
    own, shuffle = torch.Generator().manual_seed(epoch), torch.Generator().manual_seed(0)
    return [int(target) for _, target in splits.train.epoch(1, own, shuffle)]


def test_a_fixed_order_repeats_except_for_the_order_of_files() -> None:
    assert fixed("cifar100", 1) == fixed("cifar100", 2)
    epochs = [fixed("cifar10", epoch) for epoch in range(20)]
    assert len({tuple(epoch) for epoch in epochs}) > 10  # of 120 orders of five files
    assert len({tuple(target % 10 for target in epoch) for epoch in epochs}) == 1  # the place inside a file repeats
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
