"""The order in which TensorFlow 1 shuffles samples: that of DeepOBS, and of "Descending through a Crowded Valley".

Two seeds, that of the graph (the run's) and that of the operation, make two more, and these a stream of 32-bit words
(Philox 4x32-10, Salmon et al. 2011), with which every sample is swapped with a later one. The buffer held all samples,
and each epoch began the same stream again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

# The seed of the shuffling operation, which counts those of a graph: the study's had a validation set, older ones none.
OPERATION, WITHOUT_VALIDATION = 3, 2
_WORD = 0xFFFFFFFF
_FACTORS, _WEYL, _ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10


def words(key: int, upper: int) -> Iterator[int]:
    """The 32-bit words of Philox with a 64-bit key; ``upper`` is the upper half of its counter, which starts at 0."""
    lower = 0
    while True:
        block = [lower & _WORD, lower >> 32 & _WORD, upper & _WORD, upper >> 32 & _WORD]
        keys = [key & _WORD, key >> 32 & _WORD]
        for _ in range(_ROUNDS):
            first, second = (factor * number for factor, number in zip(_FACTORS, block[::2], strict=True))
            block = [
                second >> 32 ^ block[1] ^ keys[0],
                second & _WORD,
                first >> 32 ^ block[3] ^ keys[1],
                first & _WORD,
            ]
            keys = [one + step & _WORD for one, step in zip(keys, _WEYL, strict=True)]
        yield from block
        lower += 1


@lru_cache(256)
def order(seed: int, samples: int, operation: int = OPERATION) -> tuple[int, ...]:
    """Which sample comes first, second, ... in the run of a seed."""
    seeds = words(seed, operation)
    drawn = words(next(seeds), next(seeds))
    rows = list(range(samples))
    for place in range(samples):
        other = place + next(drawn) % (samples - place)
        rows[place], rows[other] = rows[other], rows[place]
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Studied:
    """Every sample once, in the study's order; the generator only tells the seed of the run."""

    samples: int
    operation: int = OPERATION

    def __len__(self) -> int:
        """Number of samples."""
        return self.samples

    def __call__(self, generator: torch.Generator | None, shuffle: torch.Generator | None = None) -> Tensor:
        """Return the order, the same in every epoch; without a generator 0, 1, 2, ..."""
        drawn = shuffle or generator
        if drawn is None:
            return torch.arange(self.samples)
        return torch.tensor(order(drawn.initial_seed(), self.samples, self.operation))
