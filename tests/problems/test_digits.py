"""The embedded problem: ten digits that differ, follow from the seed, and can be learned."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Variant
from cockpit.problems.digits import HELD_OUT, SAMPLES, SIZE, digits, draw, glyphs


def test_the_bitmaps_are_ten_and_differ() -> None:
    drawn = glyphs()
    assert drawn.shape == (10, 1, 7, 5)
    assert len({tuple(glyph.flatten().tolist()) for glyph in drawn}) == 10
    assert set(drawn.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("split", SAMPLES)
def test_data(split: str) -> None:
    inputs, labels = draw(split, 0).tensors
    assert inputs.shape == (SAMPLES[split], 1, SIZE, SIZE)
    assert labels.bincount(minlength=10).min() > 0.07 * SAMPLES[split]
    assert abs(float(inputs.mean())) < 0.2
    assert 0.5 < float(inputs.std()) < 1.5


def test_splits_and_seeds_give_different_data_and_the_same_seed_the_same() -> None:
    first = draw("train", 0).tensors[0]
    assert torch.equal(first, draw("train", 0).tensors[0])
    assert not torch.equal(first, draw("train", 1).tensors[0])
    assert not torch.equal(first[: SAMPLES["test"]], draw("test", 0).tensors[0])


def test_splits_are_disjoint_and_need_no_file(tmp_path: Path) -> None:
    splits = digits.data(Place(tmp_path / "none", download=False), Variant())
    drawn = draw("train", 0).tensors[0]
    assert splits.valid is not None
    assert [len(part) for part in (splits.train, splits.train_eval, splits.valid, splits.test)] == [
        3072,
        1024,
        1024,
        1024,
    ]
    assert torch.equal(next(splits.train.epoch(3072))[0], drawn[:-HELD_OUT])
    assert torch.equal(next(splits.valid.epoch(1024))[0], drawn[-HELD_OUT:])
    assert torch.equal(next(splits.test.epoch(1024))[0], draw("test", 0).tensors[0])
    assert not (tmp_path / "none").exists()


def test_without_validation_all_is_trained_on(tmp_path: Path) -> None:
    splits = digits.data(Place(tmp_path), Variant(validation=False))
    assert splits.valid is None
    assert len(splits.train) == SAMPLES["train"]


def test_the_global_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    draw("test", 3)
    digits.data(Place(Path("none")), Variant())
    digits.model(3)
    assert torch.equal(before, torch.get_rng_state())


def test_an_unknown_split_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CockpitError, match=r"unknown split 'tets'; did you mean 'test'"):
        draw("tets", 0)


def test_losses_are_those_of_each_sample() -> None:
    outputs, targets = torch.randn(5, 10), torch.arange(5)
    found = digits.losses(outputs, targets)
    assert found.shape == (5,)
    assert torch.allclose(found.mean(), F.cross_entropy(outputs, targets))


def test_model_follows_from_the_seed() -> None:
    first, again, other = (digits.model(seed) for seed in (0, 0, 1))
    assert sum(p.numel() for p in first.parameters()) == 2698
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), again.parameters(), strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(first.parameters(), other.parameters(), strict=True))


def test_it_can_be_learned_but_not_at_once() -> None:
    inputs, labels = draw("train", 0).tensors
    model = digits.model(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for batch in torch.arange(len(labels)).split(64):
        optimizer.zero_grad()
        digits.losses(model(inputs[batch]), labels[batch]).mean().backward()
        optimizer.step()
    pictures, truth = draw("test", 0).tensors
    with torch.no_grad():
        accuracy = float((model(pictures).argmax(1) == truth).float().mean())
    assert 0.6 < accuracy < 0.99
