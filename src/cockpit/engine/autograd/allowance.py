"""What a tracked step may take: memory, samples, time. Everything that depends on them asks here.

On a GPU, chunks may add ``SHARE`` to what training itself has allocated when it goes backwards. Where that is little,
they may take ``LEAST``, or ``ROOMY`` where the device is nearly empty: small chunks make a small net wait for kernels.
Contributions that are kept may take ``KEPT`` of it: they come layer by layer, and with each layer training lets go of
more than that.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

CHUNK_ON_CPU = 2**20  # elements of g_n that are formed at once: what is read several times should stay in the cache
CHUNK_ON_GPU = 2**26
KEPT_ON_CPU = 2**30  # bytes of factors that are kept until a step is over
LEAST = 2**26  # bytes
ROOMY = 2**29  # bytes, where the device has many times as much
EMPTY = 16
SHARE = 0.05
KEPT = 0.125
SHARE_OF_FREE = 0.5
PASSES = 4  # tensors of the size of a chunk that a statistic may make


@dataclass
class Allowance:
    """Limits, and what the last steps took: samples of the next ones follow from it."""

    memory: int | None = None  # bytes for factors that are kept and for chunks; None: by the device
    samples: int | None = None  # of a batch, whose individual gradients are taken; None: as many as fit
    seconds: float | None = None  # for the statistics of a step
    seed: int = 0
    held: int = field(default=0, init=False)  # bytes of factors that are kept now
    _peak: int = field(default=0, init=False)  # bytes that training had allocated on a GPU
    _free: int | None = field(default=None, init=False)  # bytes of it when the pass began: to ask takes long
    _room: int | None = field(default=None, init=False)  # bytes for factors, where there is a limit for them
    _needed: float = field(default=0.0, init=False)  # bytes for each sample, of the last steps
    _pace: float = field(default=0.0, init=False)  # seconds for each sample
    _drawn: int = field(default=0, init=False)

    def begin(self) -> None:
        """A step begins: nothing is held."""
        self.held = 0

    def enter(self, like: Tensor, vectors: int) -> None:
        """A backward pass is about to run, with so many bytes of ours of the model's size on its device."""
        if on_gpu(like):
            self._peak = max(self._peak, allocated(like) - vectors - self.held)
            self._free = free(like)
        self._room = self._limit(like)

    def elements(self, like: Tensor) -> int:
        """How many elements of g_n may be formed at once."""
        most = CHUNK_ON_GPU if on_gpu(like) else CHUNK_ON_CPU
        if self.memory is None and not on_gpu(like):
            return most
        return max(1, min(most, self._chunks(like) // (PASSES * max(4, like.dtype.itemsize))))

    def choose(self, samples: int, kept: bool) -> Tensor | None:
        """Samples whose individual gradients are taken, drawn without replacement; None: all of them.

        ``kept``: the factors of this step stay until it is over.
        """
        most = samples if self.samples is None else min(samples, self.samples)
        if kept and self._room is not None and self._needed:
            most = min(most, max(2, int(self._room / self._needed)))
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

    def kept(self, samples: int) -> None:
        """A pass is over: what it needed for the factors of so many samples, whether they fitted or not."""
        if samples and self.held:
            self._needed = max(self._needed, self.held / samples)

    def spent(self, samples: int, seconds: float) -> None:
        """Statistics of so many samples took their time."""
        if samples:
            self._pace = seconds / samples

    def halve(self, like: Tensor) -> None:
        """The device ran out of memory."""
        self.memory = max(1, self._limit(like) // 2)

    def on_host(self, size: int, like: Tensor) -> bool:
        """Whether a vector of so many bytes, which is read once a step, is to lie in the host's memory."""
        return on_gpu(like) and size > max(LEAST, free(like) // EMPTY)

    def _chunks(self, like: Tensor) -> int:
        """Bytes for chunks and what is made of them."""
        if self.memory is not None:
            return self.memory
        unused = self._unused(like)
        least = ROOMY if unused > EMPTY * ROOMY else LEAST
        return min(max(int(SHARE * self._peak), least), int(SHARE_OF_FREE * unused))

    def _unused(self, like: Tensor) -> int:
        if self._free is None:
            self._free = free(like)
        return self._free

    def _limit(self, like: Tensor) -> int:
        """Bytes for factors that are kept."""
        if self.memory is not None:
            return self.memory
        if not on_gpu(like):
            return KEPT_ON_CPU
        return min(max(int(KEPT * self._peak), LEAST), int(SHARE_OF_FREE * self._unused(like)))


def on_gpu(like: Tensor) -> bool:
    """Whether memory is a GPU's."""
    return like.is_cuda


def allocated(like: Tensor) -> int:
    """Bytes that all tensors on a GPU take."""
    return int(torch.cuda.memory_allocated(like.device))


def free(like: Tensor) -> int:
    """Bytes of a GPU that this process may take, and those that torch has in reserve."""
    unused, total = torch.cuda.mem_get_info(like.device)
    reserved = torch.cuda.memory_reserved(like.device)
    share = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    allowed = int(total * share(like.device)) - reserved if share is not None else unused
    return int(max(0, min(unused, allowed)) + reserved - torch.cuda.memory_allocated(like.device))
