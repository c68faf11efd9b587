"""MATLAB files: arrays come back in MATLAB's order, whatever form they were saved in."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cockpit.core.errors import CockpitError
from cockpit.problems.data.matlab import read_mat, write_mat

KINDS = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 9, "i8": 12, "u8": 13}


def tagged(order: str, kind: int, data: bytes) -> bytes:
    """An element; up to four bytes are kept in its tag, as MATLAB does it."""
    if 0 < len(data) <= 4:
        return struct.pack(order + "I", len(data) << 16 | kind) + data.ljust(4, b"\0")
    return struct.pack(order + "II", kind, len(data)) + data + bytes(-len(data) % 8)


def saved(name: str, array: NDArray[Any], order: str, compressed: bool) -> bytes:
    """A file as MATLAB writes it."""
    kind = array.dtype.str[1:]
    flags = tagged(order, 6, struct.pack(order + "II", 6, 0))
    shape = tagged(order, 5, struct.pack(f"{order}{array.ndim}i", *array.shape))
    data = tagged(order, KINDS[kind], array.astype(order + kind).tobytes(order="F"))
    matrix = tagged(order, 14, flags + shape + tagged(order, 1, name.encode()) + data)
    if compressed:
        packed = zlib.compress(matrix)
        matrix = struct.pack(order + "II", 15, len(packed)) + packed
    return b"MATLAB 5.0 MAT-file".ljust(124) + (b"\x00\x01IM" if order == "<" else b"\x01\x00MI") + matrix


def test_round_trip(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    labels = np.array([[1], [2], [10]], np.uint8)
    write_mat(tmp_path / "a.mat", {"X": images, "y": labels})
    read = read_mat(tmp_path / "a.mat")
    assert list(read) == ["X", "y"]
    assert np.array_equal(read["X"], images)
    assert np.array_equal(read["y"], labels)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_other_forms(tmp_path: Path, order: str, compressed: bool, kind: str) -> None:
    for array in (np.arange(6).reshape(2, 3).astype(kind), np.array([[1, 2]]).astype(kind)):
        (tmp_path / "a.mat").write_bytes(saved("numbers", array, order, compressed))
        assert np.array_equal(read_mat(tmp_path / "a.mat")["numbers"], array)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "no header"),
        (b"\x89HDF" + bytes(300), "no header"),
        (saved("x", np.arange(6), "<", True)[:-3], "cannot be read"),
        (saved("x", np.arange(6), "<", False)[:-3], "cannot be read"),
        (saved("x", np.arange(6), "<", False).replace(struct.pack("<II", 12, 48), struct.pack("<II", 12, 40)), "5 num"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, fact: str) -> None:
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(CockpitError, match=fact):
        read_mat(tmp_path / "a.mat")
