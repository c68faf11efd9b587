from __future__ import annotations

import numpy as np
import pytest

from cockpit.store import tail


@pytest.mark.parametrize("chunks", [[b""], [b"a", b"", b"bc"], [bytes(3 << 20), b"x"], [np.random.bytes(2 << 20)]])
def test_chunks_come_back(chunks: list[bytes]) -> None:
    assert tail.split(tail.join(chunks)) == chunks


def test_nothing_takes_nothing() -> None:
    assert tail.join([]) is None
    assert tail.split(None) == []


def test_any_changed_bit_is_noticed() -> None:
    whole = tail.join([b"some bytes", b"more"])
    assert whole is not None
    for place in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 4
        with pytest.raises(ValueError, match="checksum"):
            tail.split(bytes(spoiled))


def test_sparse_counts_are_small_and_exact() -> None:
    places = np.array([3, 4, 1000, 2**40], dtype=np.int64)
    counts = np.array([1, 2, 3, 2**50], dtype=np.int64)
    chunk = tail.pack_sparse(places, counts)
    found, numbers, rest = tail.unpack_sparse(chunk + b"rest")
    assert (found.tolist(), numbers.tolist(), rest) == (places.tolist(), counts.tolist(), b"rest")
    assert len(tail.pack_sparse(places[:2], counts[:2])) == 2 * (5 + 2)
