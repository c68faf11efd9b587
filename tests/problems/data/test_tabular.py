"""Covertype from its table."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Variant
from cockpit.problems.data.batches import Resident
from cockpit.problems.data.sample import write_sample
from cockpit.problems.data.tabular import covertype, read_table


def test_splits(tmp_path: Path) -> None:
    folder = write_sample("covertype", tmp_path, 200)
    splits = covertype(Place(tmp_path, download=False), Variant())
    parts = (splits.train, splits.valid, splits.test)
    assert [len(part) for part in parts if part is not None] == [200, 25, 25]
    assert len(splits.train_eval) == 25
    train = splits.train
    assert isinstance(train, Resident)
    torch.testing.assert_close(train.inputs[:, :10].mean(0), torch.zeros(10), atol=1e-4, rtol=0)
    torch.testing.assert_close(train.inputs[:, :10].std(0, correction=0), torch.ones(10), atol=1e-3, rtol=0)
    assert set(train.inputs[:, 10:].unique().tolist()) == {0.0, 1.0}
    assert set(train.targets.tolist()) == set(range(7))
    table = read_table(folder / "covtype.data.gz")
    rows = torch.cat([torch.cat([part.inputs[:, 10:], part.targets[:, None]], 1) for part in parts])  # type: ignore[union-attr]
    saved = table[:, 10:] - np.array([0] * 44 + [1])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, saved.astype(float).tolist()))  # each row once


def test_a_unit_is_the_deviation_of_training_alone(tmp_path: Path) -> None:
    write_sample("covertype", tmp_path, 200)
    place = Place(tmp_path, download=False)
    held, all_trained = covertype(place, Variant()), covertype(place, Variant(validation=False))
    assert all_trained.valid is None
    assert len(all_trained.train) == 225
    one, other = (next(splits.test.epoch(25)) for splits in (held, all_trained))
    assert torch.equal(one[1], other[1])
    assert not torch.equal(one[0], other[0])


def test_an_unzipped_table_is_read(tmp_path: Path) -> None:
    folder = write_sample("covertype", tmp_path)
    zipped = folder / "covtype.data.gz"
    (folder / "covtype.data").write_bytes(gzip.decompress(zipped.read_bytes()).replace(b"\n", b"\r\n"))
    assert np.array_equal(read_table(folder / "covtype.data"), read_table(zipped))


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "no rows of 55"),
        (b"1,2,3\n", "3 numbers are no rows of 55"),
        (b"a,b\n", "no table of whole numbers"),
        (b"0," * 54 + b"8\n", "last column is not between 1 and 7"),
        (gzip.compress(b"1,2", mtime=0)[:-3], "no table"),
        (b"\xff\xfe", "no table"),
    ],
)
def test_wrong_tables(content: bytes, fact: str, tmp_path: Path) -> None:
    (tmp_path / "covtype.data.gz").write_bytes(content)
    with pytest.raises(CockpitError, match=fact):
        read_table(tmp_path / "covtype.data.gz")
