"""SVHN from MATLAB files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Variant
from cockpit.problems.data.augment import Distort
from cockpit.problems.data.batches import Resident
from cockpit.problems.data.matlab import read_mat, write_mat
from cockpit.problems.data.sample import write_sample
from cockpit.problems.data.svhn import svhn


def test_images_and_digits(tmp_path: Path) -> None:
    folder = write_sample("svhn", tmp_path, 40)
    splits = svhn(Place(tmp_path, download=False), Variant(validation=False))
    saved = read_mat(folder / "train_32x32.mat")
    train = splits.train
    assert isinstance(train, Resident)
    assert train.inputs.shape == (40, 3, 32, 32)
    for sample in (0, 7, 39):
        for row, column, channel in ((0, 0, 0), (3, 17, 1), (31, 2, 2)):
            assert train.inputs[sample, channel, row, column] == int(saved["X"][row, column, channel, sample])
    digits = saved["y"][:, 0].tolist()
    assert 10 in digits
    assert 0 not in digits
    assert train.targets.tolist() == [digit % 10 for digit in digits]


def test_splits_and_no_mirroring(tmp_path: Path) -> None:
    write_sample("svhn", tmp_path)
    splits = svhn(Place(tmp_path, download=False), Variant())
    assert splits.valid is not None
    assert [len(part) for part in (splits.train, splits.train_eval, splits.valid, splits.test)] == [42, 16, 22, 16]
    assert isinstance(splits.train, Resident)
    assert isinstance(splits.train.augment, Distort)
    assert not splits.train.augment.crop.mirror
    assert splits.valid.epoch is not None
    assert torch.isfinite(next(splits.train.epoch(42, torch.Generator().manual_seed(0)))[0]).all()


@pytest.mark.parametrize(
    ("arrays", "fact"),
    [
        ({"X": np.zeros((32, 32, 3, 5))}, "instead of images X"),
        ({"X": np.zeros((5, 3, 32, 32)), "y": np.zeros((5, 1))}, "instead of images X"),
        ({"X": np.zeros((32, 32, 3, 5)), "y": np.ones((4, 1))}, r"labels \(4,\) for 5 images"),
        ({"X": np.zeros((32, 32, 3, 5)), "y": np.full((5, 1), 11)}, "label 11 is beyond"),
    ],
)
def test_wrong_content(arrays: dict[str, np.ndarray], fact: str, tmp_path: Path) -> None:
    folder = write_sample("svhn", tmp_path)
    write_mat(folder / "train_32x32.mat", arrays)
    with pytest.raises(CockpitError, match=fact):
        svhn(Place(tmp_path, download=False), Variant())
