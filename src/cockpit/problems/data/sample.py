"""Small made-up data sets in the official formats, to try a problem without its data."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cockpit.core.errors import CockpitError, unknown
from cockpit.problems.data.idx import write_idx
from cockpit.problems.data.imagenet import pillow
from cockpit.problems.data.matlab import write_mat

Bytes = NDArray[np.uint8]
WORDS = ["war", "peace", "prince", "count", "battle", "letter", "winter", "horse", "the", "and", "of", "to", "was"]


def write_sample(dataset: str, folder: Path, samples: int = 64, seed: int = 0) -> Path:
    """Write a made-up data set into ``folder/<dataset>/``, which is returned; a model can learn from it.

    There are ``samples`` for training (validation included) and a quarter as many for testing; a book of a hundred
    characters for each.
    """
    if dataset not in WRITERS:
        raise unknown("data set", dataset, WRITERS)
    if samples < 8:
        raise CockpitError(f"a data set of {samples} samples cannot be split; ask for at least 8")
    place = folder / dataset
    place.mkdir(parents=True, exist_ok=True)
    WRITERS[dataset](place, samples, np.random.RandomState(seed))
    return place


def drawn(shape: tuple[int, ...], classes: int, samples: int, draw: np.random.RandomState) -> list[tuple[Bytes, Bytes]]:
    """Images and labels for training and test: each class has its own picture, below some noise."""
    pictures = draw.uniform(40, 215, (classes, *shape))
    parts = []
    for count in (samples, samples // 4):
        labels = np.arange(count) % classes
        draw.shuffle(labels)
        noisy = pictures[labels] + draw.normal(0, 20, (count, *shape))
        parts.append((noisy.clip(0, 255).astype(np.uint8), labels.astype(np.uint8)))
    return parts


def write_grey(place: Path, samples: int, draw: np.random.RandomState) -> None:
    """Files like those of MNIST."""
    for name, (images, labels) in zip(("train", "t10k"), drawn((28, 28), 10, samples, draw), strict=True):
        write_idx(place / f"{name}-images-idx3-ubyte.gz", images)
        write_idx(place / f"{name}-labels-idx1-ubyte.gz", labels)


def write_cifar10(place: Path, samples: int, draw: np.random.RandomState) -> None:
    """The archive of binary records, five files for training."""
    train, test = (records(images, labels) for images, labels in drawn((3, 32, 32), 10, samples, draw))
    fifths = np.array_split(train, 5)
    named = {f"data_batch_{number}.bin": part for number, part in enumerate(fifths, start=1)}
    pack(place / "cifar-10-binary.tar.gz", "cifar-10-batches-bin", named | {"test_batch.bin": test})


def write_cifar100(place: Path, samples: int, draw: np.random.RandomState) -> None:
    """The archive of binary records with a coarse and a fine label."""
    parts = drawn((3, 32, 32), 100, samples, draw)
    train, test = (records(images, labels // 5, labels) for images, labels in parts)
    pack(place / "cifar-100-binary.tar.gz", "cifar-100-binary", {"train.bin": train, "test.bin": test})


def records(images: Bytes, *labels: Bytes) -> Bytes:
    """Rows of labels and pixels."""
    return np.concatenate([*(label[:, None] for label in labels), images.reshape(len(images), -1)], axis=1)


def pack(path: Path, folder: str, named: dict[str, Bytes]) -> None:
    """Write an archive of a folder of files."""
    with gzip.GzipFile(path, "wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, array in named.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = array.nbytes
            archive.addfile(member, io.BytesIO(array.tobytes()))


def write_svhn(place: Path, samples: int, draw: np.random.RandomState) -> None:
    """MATLAB files; the digit 0 is written as 10."""
    for name, (images, labels) in zip(("train", "test"), drawn((3, 32, 32), 10, samples, draw), strict=True):
        digits = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
        write_mat(place / f"{name}_32x32.mat", {"X": images.transpose(2, 3, 1, 0), "y": digits})


def write_tolstoi(place: Path, samples: int, draw: np.random.RandomState) -> None:
    """A book of a few words, a dozen in a line."""
    words = draw.choice(WORDS, size=60 * samples)
    text = " ".join(word if number % 12 else f"\n{word}" for number, word in enumerate(words))
    (place / "war_and_peace.txt").write_bytes(text[1 : 100 * samples + 1].encode())


def write_covertype(place: Path, samples: int, draw: np.random.RandomState) -> None:
    """A gzipped table; training and test rows together."""
    rows = samples + samples // 4
    labels = np.arange(rows) % 7
    draw.shuffle(labels)
    numeric = draw.uniform(500, 3000, (7, 10))[labels] + draw.normal(0, 100, (rows, 10))
    binary = (draw.uniform(size=(7, 44)) < 0.2)[labels]
    table = np.concatenate([numeric.astype(np.int64), binary.astype(np.int64), labels[:, None] + 1], axis=1)
    text = "".join(",".join(map(str, row)) + "\n" for row in table.tolist())
    (place / "covtype.data.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def write_imagenet(place: Path, samples: int, draw: np.random.RandomState) -> None:
    """Folders of small JPEG files, four classes."""
    image = pillow()
    for name, (images, labels) in zip(("train", "val"), drawn((3, 4, 5), 4, samples, draw), strict=True):
        for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
            folder = place / name / f"n{label:08d}"
            folder.mkdir(parents=True, exist_ok=True)
            picture = image.fromarray(pixels.transpose(1, 2, 0)).resize((80, 64))
            picture.save(folder / f"{name}_{number:05d}.JPEG", quality=95)


WRITERS: dict[str, Callable[[Path, int, np.random.RandomState], None]] = {
    "mnist": write_grey,
    "fashion_mnist": write_grey,
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "svhn": write_svhn,
    "imagenet": write_imagenet,
    "tolstoi": write_tolstoi,
    "covertype": write_covertype,
}
