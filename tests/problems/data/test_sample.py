"""Made-up data sets: the same for the same seed, and something can be learned from them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Variant
from cockpit.problems.data.cifar import cifar10, cifar100
from cockpit.problems.data.mnist import fashion_mnist, mnist
from cockpit.problems.data.sample import WRITERS, write_sample
from cockpit.problems.data.svhn import svhn
from cockpit.problems.data.tabular import covertype

LABELLED = [mnist, fashion_mnist, cifar10, cifar100, svhn, covertype]


@pytest.mark.parametrize("dataset", WRITERS)
def test_the_seed_decides(dataset: str, tmp_path: Path) -> None:
    if dataset == "imagenet":
        pytest.importorskip("PIL")
    written = [write_sample(dataset, tmp_path / name, 8, seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    first, again, other = (sorted(path for path in folder.rglob("*") if path.is_file()) for folder in written)
    assert written[0] == tmp_path / "a" / dataset
    assert [path.name for path in first] == [path.name for path in again]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert [path.read_bytes() for path in first] != [path.read_bytes() for path in other]


@pytest.mark.parametrize("load", LABELLED)
def test_classes_can_be_told_apart(load: object, tmp_path: Path) -> None:
    write_sample(load.__name__, tmp_path, 400)  # type: ignore[attr-defined]
    splits = load(Place(tmp_path, download=False), Variant(validation=False))  # type: ignore[operator]
    (inputs, labels), (seen, expected) = (next(part.epoch(len(part))) for part in (splits.train, splits.test))
    centres = torch.stack([inputs[labels == label].flatten(1).mean(0) for label in range(int(labels.max()) + 1)])
    nearest = torch.cdist(seen.flatten(1), centres).argmin(1)
    assert (nearest == expected).float().mean() > 0.9


def test_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="did you mean 'mnist'"):
        write_sample("mnits", tmp_path)
    with pytest.raises(CockpitError, match="ask for at least 8"):
        write_sample("mnist", tmp_path, 7)
