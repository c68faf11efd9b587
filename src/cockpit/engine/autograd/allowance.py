"""What a tracked step may take: memory, samples, time. Everything that depends on them asks here."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

CHUNK_ON_CPU = 2**20  # elements of g_n that are formed at once: what is read several times should stay in the cache
CHUNK_ON_GPU = 2**26
KEPT_ON_CPU = 2**30  # bytes of factors that are kept until a step is over
SHARE_OF_FREE = 0.5  # of a GPU's memory


@dataclass
class Allowance:
    """Limits, and what the last steps took: samples of the next ones follow from it."""

    memory: int | None = None  # bytes for factors that are kept and for chunks; None: by the device
    samples: int | None = None  # of a batch, whose individual gradients are taken; None: as many as fit
    seconds: float | None = None  # for the statistics of a step
    seed: int = 0
    held: int = field(default=0, init=False)  # bytes of factors that are kept now
    _room: int | None = field(default=None, init=False)  # bytes for them in this step
    _needed: float = field(default=0.0, init=False)  # bytes for each sample, of the last steps
    _pace: float = field(default=0.0, init=False)  # seconds for each sample
    _drawn: int = field(default=0, init=False)

    def begin(self) -> None:
        """A step begins: nothing is held."""
        self.held, self._room = 0, None

    def elements(self, like: Tensor) -> int:
        """How many elements of g_n may be formed at once."""
        most = CHUNK_ON_GPU if like.is_cuda else CHUNK_ON_CPU
        return most if self.memory is None else max(1, min(most, self.memory // (4 * like.dtype.itemsize)))

    def choose(self, samples: int, kept: bool) -> Tensor | None:
        """Samples whose individual gradients are taken, drawn without replacement; None: all of them.

        ``kept``: the factors of this step stay until it is over.
        """
        most = samples if self.samples is None else min(samples, self.samples)
        if kept and self.memory is not None and self._needed:
            most = min(most, int(self.memory / self._needed))
        if self.seconds is not None and self._pace:
            most = min(most, int(self.seconds / self._pace))
        most = max(1, most)
        if most >= samples:
            return None
        self._drawn += 1
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self._drawn) % 2**63)
        return torch.randperm(samples, generator=generator, device="cpu")[:most].sort().values

    def keep(self, tensors: list[Tensor]) -> bool:
        """Whether there is room for these factors; if so, they count as held."""
        if self._room is None:
            self._room = self._limit(tensors[0])
        self.held += sum(tensor.nbytes for tensor in tensors)
        return self.held <= self._room

    def _limit(self, like: Tensor) -> int:
        if self.memory is not None:
            return self.memory
        if not like.is_cuda:
            return KEPT_ON_CPU
        free, _ = torch.cuda.mem_get_info(like.device)
        cached = torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device)
        return int(SHARE_OF_FREE * (free + cached))

    def kept(self, samples: int) -> None:
        """A pass is over: what it needed for the factors of so many samples, whether they fitted or not."""
        if samples and self.held:
            self._needed = max(self._needed, self.held / samples)
            if self._room is not None and self.held > self._room and self.memory is None:
                self.memory = self._room

    def spent(self, samples: int, seconds: float) -> None:
        """Statistics of so many samples took their time."""
        if samples:
            self._pace = seconds / samples

    def halve(self, like: Tensor) -> None:
        """The device ran out of memory."""
        self.memory = max(1, self._limit(like) // 2)
