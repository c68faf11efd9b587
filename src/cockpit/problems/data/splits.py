"""How data are split into training, train-eval, validation and test."""

from dataclasses import dataclass

from torch import Tensor

from cockpit.core.errors import unknown
from cockpit.problems._base import Batches, Splits, Variant
from cockpit.problems.data.batches import Augment, Head, Prepare, Redrawn, Resident


@dataclass(frozen=True, slots=True)
class Official:
    """Sizes of a data set as published: what is held out is the first ``valid`` of the training samples."""

    train: int
    test: int
    valid: int
    file: int | None = None  # records in a file, where older versions redrew the validation set by files
    cut: int | None = None  # training samples that the oldest version had, where it lost some


OFFICIAL = {
    "mnist": Official(60_000, 10_000, valid=10_000),
    "fashion_mnist": Official(60_000, 10_000, valid=10_000),
    "cifar10": Official(50_000, 10_000, valid=10_000, file=10_000),
    "cifar100": Official(50_000, 10_000, valid=10_000),
    "svhn": Official(73_257, 26_032, valid=26_032, file=12_800, cut=64_000),
    "imagenet": Official(1_281_167, 50_000, valid=50_000),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Number of samples in each split; ``valid`` is 0 where nothing is held out."""

    train: int
    train_eval: int
    valid: int
    test: int


def official(dataset: str) -> Official:
    """The published sizes of a data set."""
    if dataset not in OFFICIAL:
        raise unknown("data set", dataset, OFFICIAL)
    return OFFICIAL[dataset]


def sizes(total_train: int, total_test: int, dataset: str, variant: Variant) -> Sizes:
    """Sizes of the splits; of a smaller copy the same share is held out and cut off, rounded down."""
    published = official(dataset)
    there = total_train * published.cut // published.train if variant.cut and published.cut else total_train
    valid = total_train * published.valid // published.train if variant.validation else 0
    train = there - valid
    return Sizes(train, min(total_test, train), valid, total_test)


def train_eval(train: Batches, test: Batches) -> Batches:
    """As many training samples as there are test samples.

    With a generator they are the first of a shuffled epoch and augmented like it, as in the reference; without one they
    are the first of the training data, as they are.
    """
    return Head(train, len(test))


def resident(
    dataset: str,
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    variant: Variant,
    augment: Augment | None = None,
    prepare: Prepare | None = None,
) -> Splits:
    """Splits of data held in memory; each part is given as inputs and targets."""
    tested = Resident(*test, prepare=prepare)
    found = sizes(len(train[0]), len(tested), dataset, variant)
    held = found.valid
    inputs, targets = (part[: held + found.train] for part in train)
    valid = None
    file = _file(dataset, len(train[0]))
    if held and file is not None and not variant.held_out:
        trained = Resident(inputs, targets, augment, prepare, Redrawn(len(inputs), file, held, validation=False))
        valid = Resident(inputs, targets, None, prepare, Redrawn(len(inputs), file, held, validation=True))
    else:
        by_files = Redrawn(found.train, file, 0, validation=False) if file and variant.order == "fixed" else None
        trained = Resident(inputs[held:], targets[held:], augment, prepare, by_files)
        if held:
            valid = Resident(inputs[:held], targets[:held], prepare=prepare)
    return Splits(trained, train_eval(trained, tested), valid, tested)


def _file(dataset: str, samples: int) -> int | None:
    """Records in a file, of a smaller copy the same share; None where the data lie in one file."""
    published = official(dataset)
    return None if published.file is None else max(1, samples * published.file // published.train)
