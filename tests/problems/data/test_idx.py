"""IDX files: what is written is read, gzipped or not; what is broken is said."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from cockpit.core.errors import CockpitError
from cockpit.problems.data.idx import read_idx, write_idx

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["a-idx3-ubyte", "a-idx3-ubyte.gz"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    write_idx(tmp_path / name, ARRAY)
    read = read_idx(tmp_path / name)
    assert np.array_equal(read, ARRAY)
    assert read.flags.writeable


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    write_idx(tmp_path / "labels", np.array([7, 9], np.uint8))
    assert (tmp_path / "labels").read_bytes() == bytes.fromhex("00000801" + "00000002" + "0709")


def test_gzip_is_seen_in_the_content_not_in_the_name(tmp_path: Path) -> None:
    write_idx(tmp_path / "plain", ARRAY)
    (tmp_path / "other").write_bytes(gzip.compress((tmp_path / "plain").read_bytes(), 1))
    (tmp_path / "named.gz").write_bytes((tmp_path / "plain").read_bytes())
    assert np.array_equal(read_idx(tmp_path / "other"), ARRAY)
    assert np.array_equal(read_idx(tmp_path / "named.gz"), ARRAY)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "begins with nothing"),
        (b"<!DOCTYPE html>", "begins with 3c21444f"),
        (bytes.fromhex("00000d0100000000"), "begins with 00000d01"),
        (bytes.fromhex("00000801" + "00000003" + "0709"), r"its header says \(3,\), but 2 bytes follow"),
        (bytes.fromhex("00000802" + "00000003"), "its header says"),
        (gzip.compress(b"0" * 1000, mtime=0)[:-9], "cannot be unzipped"),
        (b"\x1f\x8b and then something else", "cannot be unzipped"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, fact: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(CockpitError, match=fact) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
