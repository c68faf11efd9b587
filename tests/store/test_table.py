from __future__ import annotations

from math import isnan
from pathlib import Path

import numpy as np
import pytest
from tests.store.contract import frame

from cockpit.core.errors import CockpitError
from cockpit.store import StoredRun, create


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    writer = create(tmp_path, {"git": None})
    for step in range(4):
        writer.append(frame(step))
    writer.close()
    return StoredRun(tmp_path)


def test_wide(run: StoredRun) -> None:
    table = run.table()
    assert list(table) == ["step", "Loss", "Alpha", "GradNorm", "Trace", "Odd", "Parameters"]
    assert table["step"].tolist() == [0, 1, 2, 3]
    assert table["GradNorm"].tolist() == pytest.approx([(0.01 * step**2 + 16) ** 0.5 for step in range(4)])
    assert isnan(table["Alpha"][1])


def test_per_parameter(run: StoredRun) -> None:
    table = run.table("GradNorm")
    assert {name: column.tolist() for name, column in table.items()} == {
        "step": [0, 1, 2, 3],
        "0.weight": [0.0, 0.1, 0.2, 0.1 * 3],
        "0.bias": [4.0] * 4,
    }


def test_histograms_are_long(run: StoredRun) -> None:
    table = run.table("Hist1d")
    assert list(table) == ["step", "parameter", "low", "high", "count"]
    rows = list(zip(*(column.tolist() for column in table.values()), strict=True))
    assert rows[:3] == [(0, "0.weight", 0.0, 0.5, 2**40), (0, "0.weight", 0.5, 1.0, 1), (0, "0.bias", -0.5, 0.0, 1)]
    assert sorted(set(table["step"].tolist())) == [0, 2, 3]
    square = run.table("Hist2d")
    assert list(square) == ["step", "parameter", "low", "high", "low_2", "high_2", "count"]
    assert square["high_2"][:4].tolist() == [0.1, 1.0, 10.0, 11.0]


def test_samples_are_long(run: StoredRun) -> None:
    table = run.table("Losses")
    assert np.array_equal(table["step"], np.repeat(np.arange(4), 7))
    assert table["sample"][:7].tolist() == list(range(7))
    assert table["Losses"][-1] == 3.0


def test_an_unknown_name(run: StoredRun) -> None:
    with pytest.raises(CockpitError, match="did you mean 'Loss'"):
        run.table("loss")
