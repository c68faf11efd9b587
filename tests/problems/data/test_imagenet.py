"""ImageNet from folders of JPEG files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Variant
from cockpit.problems.data.augment import scaled, standardised
from cockpit.problems.data.imagenet import Photographs, decoded, imagenet
from cockpit.problems.data.sample import write_sample

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("photographs")
    write_sample("imagenet", made, 40)
    return made


def test_splits(folder: Path) -> None:
    splits = imagenet(Place(folder), Variant())
    assert splits.valid is not None
    assert [len(part) for part in (splits.train, splits.train_eval, splits.valid, splits.test)] == [39, 10, 1, 10]
    assert isinstance(splits.train, Photographs)
    assert isinstance(splits.valid, Photographs)
    assert not set(splits.train.files) & set(splits.valid.files)
    assert imagenet(Place(folder), Variant()).train.files == splits.train.files  # type: ignore[attr-defined]
    for file, label in zip(splits.train.files, splits.train.labels.tolist(), strict=True):
        assert file.parent.name == f"n{label - 1:08d}"  # 0 is background
    assert imagenet(Place(folder), Variant(validation=False)).valid is None


def test_evaluation_takes_the_centre(folder: Path) -> None:
    test = imagenet(Place(folder), Variant()).test
    assert isinstance(test, Photographs)
    inputs, targets = next(test.epoch(4))
    assert torch.equal(targets, test.labels[:4])
    whole = torch.stack([decoded(file) for file in test.files[:4]])
    torch.testing.assert_close(inputs, standardised(scaled(whole[:, :, 16:240, 16:240])))


def test_training_is_drawn_from_the_generator(folder: Path) -> None:
    train = imagenet(Place(folder), Variant()).train
    first, again, other = (next(train.epoch(4, torch.Generator().manual_seed(seed))) for seed in (0, 0, 1))
    assert first[0].shape == (4, 3, 224, 224)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])
    assert [len(batch[1]) for batch in train.epoch(10)] == [10, 10, 10]


@pytest.mark.parametrize(("width", "height"), [(300, 600), (50, 20), (256, 256), (257, 301)])
def test_decoding(width: int, height: int, tmp_path: Path) -> None:
    across = np.linspace(0, 255, width)[None, :, None] * np.ones((height, 1, 3))
    Image.fromarray(across.astype(np.uint8)).save(tmp_path / "a.jpg", quality=98)
    image = decoded(tmp_path / "a.jpg").float()
    assert image.shape == (3, 256, 256)
    shown = 256 * min(width, height) / 256  # columns of the original that are left
    edges = [255 * (width / 2 + side * shown / 2) / width for side in (-1, 1)]
    assert image[:, 100, 0].mean() == pytest.approx(edges[0], abs=6)
    assert image[:, 100, -1].mean() == pytest.approx(edges[1], abs=6)


def test_grey_files_become_coloured(tmp_path: Path) -> None:
    Image.new("L", (30, 30), 90).save(tmp_path / "a.jpg")
    assert decoded(tmp_path / "a.jpg").shape == (3, 256, 256)


def test_errors(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="a folder of JPEG files for each class") as caught:
        imagenet(Place(tmp_path), Variant())
    assert str(tmp_path / "imagenet" / "train") in str(caught.value)
    (tmp_path / "a.jpg").write_bytes(b"no image")
    batches = Photographs((tmp_path / "a.jpg",), torch.ones(1))
    with pytest.raises(CockpitError, match=r"a\.jpg cannot be read as an image"):
        list(batches.epoch(1))


def test_too_many_classes(tmp_path: Path) -> None:
    for number in range(1001):
        (tmp_path / "imagenet" / "train" / str(number)).mkdir(parents=True)
    (tmp_path / "imagenet" / "val").mkdir()
    with pytest.raises(CockpitError, match="1001 folders of classes"):
        imagenet(Place(tmp_path), Variant())


def test_without_pillow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(CockpitError, match="pip install pillow"):
        imagenet(Place(folder), Variant())
