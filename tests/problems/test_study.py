"""The study's order of samples."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from cockpit.problems.data.study import Studied, order, words


def test_philox_gives_its_published_words() -> None:
    """Known answers of Random123's philox4x32_10."""
    assert list(islice(words(0, 0), 4)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    key = 0xA4093822 | 0x299F31D0 << 32
    seen = _block([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], key)
    assert seen == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def _block(counter: list[int], key: int) -> list[int]:
    """The words of one counter, which a stream reaches late: the rounds in another way of writing."""
    x0, x1, x2, x3 = counter
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * x0, 0xCD9E8D57 * x2
        x0, x1, x2, x3 = (q >> 32) ^ x1 ^ k0, q % 2**32, (p >> 32) ^ x3 ^ k1, p % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [x0, x1, x2, x3]


@pytest.mark.parametrize(("key", "upper"), [(42, 3), (2**63 + 5, 2**40 + 1)])
def test_a_stream_counts_blocks(key: int, upper: int) -> None:
    found = list(islice(words(key, upper), 12))
    blocks = [_block([count, 0, upper % 2**32, upper >> 32], key) for count in range(3)]
    assert found == [word for block in blocks for word in block]


def test_an_order_is_a_permutation_that_follows_from_the_seed() -> None:
    assert sorted(order(42, 1000)) == list(range(1000))
    assert len({order(seed, 100) for seed in range(42, 52)}) == 10
    assert order(42, 100) != order(42, 100, 2)


def test_every_epoch_has_the_order_of_the_seed() -> None:
    studied = Studied(50)
    own, seeded = torch.Generator().manual_seed(1), torch.Generator().manual_seed(42)
    assert studied(own, seeded).tolist() == studied(None, seeded).tolist() == list(order(42, 50))
    assert studied(None).tolist() == list(range(50))
    assert len(studied) == 50
