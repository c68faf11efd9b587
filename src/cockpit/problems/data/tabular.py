"""Covertype: which of seven kinds of forest grows there, from 54 facts about a place."""

import gzip
import warnings
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.problems._base import Place, Splits, Variant
from cockpit.problems.data.batches import Resident
from cockpit.problems.data.fetch import File, broken, fetch
from cockpit.problems.data.splits import train_eval

ROWS = 581_012  # officially
FEATURES = 54
NUMERIC = 10  # the first columns; the others are 0 or 1
CLASSES = 7
COVERTYPE = File(
    "covtype.data.gz",
    "https://ndownloader.figshare.com/files/5976039",
    "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
    also=("covtype.data",),
)


def covertype(place: Place, variant: Variant) -> Splits:
    """80% training, 10% validation, 10% test, drawn once by a fixed seed; numeric columns standardised."""
    (path,) = fetch(place, "covertype", [COVERTYPE])
    table = read_table(path)
    order = np.random.RandomState(42).permutation(len(table))
    tenth = len(table) // 10
    held = tenth if variant.validation else 0
    rows = {"test": order[:tenth], "valid": order[tenth : tenth + held], "train": order[tenth + held :]}
    features, labels = table[:, :FEATURES].astype(np.float32), table[:, FEATURES].astype(np.int64) - 1
    trained = features[rows["train"], :NUMERIC]
    features[:, :NUMERIC] -= trained.mean(0)
    features[:, :NUMERIC] /= np.maximum(trained.std(0), 1e-6)

    def part(name: str) -> Resident:
        return Resident(tensor(features[rows[name]]), tensor(labels[rows[name]]))

    train, test = part("train"), part("test")
    return Splits(train, train_eval(train, test), part("valid") if held else None, test)


def tensor(array: NDArray[np.float32] | NDArray[np.int64]) -> Tensor:
    """Return the numbers as tensors."""
    return torch.from_numpy(array)


def read_table(path: Path) -> NDArray[np.int32]:
    """Whole numbers, 54 features and the class from 1 to 7 in each row."""
    content = path.read_bytes()
    try:
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("ascii")
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # how numpy says that it met something else
            numbers = np.fromstring(text.strip().replace("\r", "").replace("\n", ","), np.int32, sep=",")
    except (OSError, EOFError, zlib.error, ValueError, DeprecationWarning) as error:
        raise broken(path, f"it is no table of whole numbers ({error})") from error
    if not len(numbers) or len(numbers) % (FEATURES + 1):
        raise broken(path, f"its {len(numbers)} numbers are no rows of {FEATURES + 1}")
    table = numbers.reshape(-1, FEATURES + 1)
    if not 1 <= table[:, -1].min() <= table[:, -1].max() <= CLASSES:
        raise broken(path, f"its last column is not between 1 and {CLASSES}")
    return table
