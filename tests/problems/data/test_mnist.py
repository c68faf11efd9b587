"""MNIST and Fashion-MNIST from files in the official format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Splits, Variant
from cockpit.problems.data.idx import read_idx, write_idx
from cockpit.problems.data.mnist import FASHION_MNIST, MNIST, fashion_mnist, mnist
from cockpit.problems.data.sample import write_sample

LOADERS = [mnist, fashion_mnist]


@pytest.mark.parametrize("load", LOADERS)
def test_splits(load: Callable[[Place, Variant], Splits], tmp_path: Path) -> None:
    folder = write_sample(load.__name__, tmp_path, 60)
    splits = load(Place(tmp_path, download=False), Variant())
    assert splits.valid is not None
    assert [len(part) for part in (splits.train, splits.train_eval, splits.valid, splits.test)] == [50, 15, 10, 15]
    pixels, labels = (read_idx(folder / f"train-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    valid, train = next(splits.valid.epoch(10)), next(splits.train.epoch(50))
    inputs, targets = (torch.cat(both).numpy() for both in zip(valid, train, strict=True))
    np.testing.assert_allclose(inputs[:, 0], pixels / 255, rtol=1e-6)
    assert np.array_equal(targets, labels)
    assert targets.dtype == np.int64


def test_nothing_is_augmented(tmp_path: Path) -> None:
    write_sample("mnist", tmp_path, 60)
    train = mnist(Place(tmp_path, download=False), Variant(validation=False)).train
    plain, drawn = next(train.epoch(60)), next(train.epoch(60, torch.Generator().manual_seed(0)))
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    assert torch.equal(plain[0][order], drawn[0])


def test_unzipped_copies_are_read(tmp_path: Path) -> None:
    folder = write_sample("mnist", tmp_path)
    expected = mnist(Place(tmp_path, download=False), Variant())
    for path in list(folder.iterdir()):
        write_idx(path.with_suffix(""), read_idx(path))
        path.unlink()
    found = mnist(Place(tmp_path, download=False), Variant())
    assert torch.equal(next(found.test.epoch(16))[0], next(expected.test.epoch(16))[0])


def test_wrong_content(tmp_path: Path) -> None:
    folder = write_sample("mnist", tmp_path)
    place = Place(tmp_path, download=False)
    labels = folder / "t10k-labels-idx1-ubyte.gz"
    write_idx(labels, np.full(16, 10, np.uint8))
    with pytest.raises(CockpitError, match="label 10 is beyond the 10 classes"):
        mnist(place, Variant())
    write_idx(labels, np.zeros(15, np.uint8))
    with pytest.raises(CockpitError, match=r"labels \(15,\) for 16 images"):
        mnist(place, Variant())
    write_idx(folder / "t10k-images-idx3-ubyte.gz", np.zeros((16, 784), np.uint8))
    with pytest.raises(CockpitError, match=r"\(16, 784\) instead of images"):
        mnist(place, Variant())


@pytest.mark.parametrize("load", LOADERS)
def test_missing_files(load: Callable[[Place, Variant], Splits], tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="train-images-idx3-ubyte") as caught:
        load(Place(tmp_path, download=False), Variant())
    assert str(tmp_path / load.__name__) in str(caught.value)


def test_every_file_has_an_address_and_a_checksum_of_its_own() -> None:
    files = MNIST + FASHION_MNIST
    assert len({file.url for file in files}) == len({file.checksum for file in files}) == 8
    assert all(file.checksum is not None and len(file.checksum) == len("md5:") + 32 for file in files)
