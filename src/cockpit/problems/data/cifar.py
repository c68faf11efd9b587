"""CIFAR-10 and CIFAR-100: small photographs."""

from pathlib import Path

import torch
from torch import Tensor

from cockpit.problems._base import Place, Splits, Variant
from cockpit.problems.data.augment import Crop, Distort, standardised
from cockpit.problems.data.fetch import File, fetch
from cockpit.problems.data.images import Images, checked
from cockpit.problems.data.records import read_cifar
from cockpit.problems.data.splits import resident

CIFAR10 = File(
    "cifar-10-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "md5:c32a1d4ab5d03f1284b67883e8d87530",
    also=("cifar-10-batches-bin", "cifar-10-python.tar.gz", "cifar-10-batches-py"),
)
CIFAR100 = File(
    "cifar-100-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    "md5:03b5dce01913d631647c71ecec9e9cb8",
    also=("cifar-100-binary", "cifar-100-python.tar.gz", "cifar-100-python"),
)
DISTORTED = Distort(Crop(32, pad=2))


def cifar10(place: Place, variant: Variant) -> Splits:
    """Photographs of ten kinds of things, 32 × 32."""
    (path,) = fetch(place, "cifar10", [CIFAR10])
    train = coloured(path, [f"data_batch_{number}" for number in range(1, 6)], 10)
    return resident("cifar10", train, coloured(path, ["test_batch"], 10), variant, DISTORTED, standardised)


def cifar100(place: Place, variant: Variant) -> Splits:
    """Photographs of a hundred kinds of things, 32 × 32."""
    (path,) = fetch(place, "cifar100", [CIFAR100])
    train, test = (coloured(path, [name], 100) for name in ("train", "test"))
    if variant.label_leak:
        train, test = leaked(*train), leaked(*test)
    return resident("cifar100", train, test, variant, DISTORTED, standardised)


def coloured(path: Path, names: list[str], classes: int) -> Images:
    """Images [N, 3, 32, 32] and labels of a CIFAR data set."""
    pixels, labels = read_cifar(path, names, labels=2 if classes == 100 else 1)
    return checked(path, pixels.reshape(-1, 3, 32, 32), labels, classes)


def leaked(images: Tensor, labels: Tensor) -> Images:
    """Images that begin one byte early in their record: the label, then all pixels but the last."""
    pixels = images.flatten(1)
    return torch.cat([labels[:, None].to(torch.uint8), pixels[:, :-1]], dim=1).reshape(images.shape), labels
