"""What a tracked step may take: memory and samples. Everything that depends on them asks here.

At every moment, training and tracking together stay below the peak of training alone and ``share`` of it more, or
``LEAST`` bytes more where that is less; and tracking takes at most half of what was free. On a GPU this is asked just
before memory is taken: room grows as training lets go of what it has gone backwards through.
"""

import sys
from dataclasses import dataclass, field

import torch
from torch import Tensor

CHUNK_ON_CPU = 2**20  # elements of g_n that are formed at once: what is read several times should stay in the cache
CHUNK_ON_GPU = 2**26
SMALLEST = 2**18  # so many are formed even where there is no room
LEAST = 2**26  # bytes
SHARE = 0.05
SHARE_OF_FREE = 0.5
PASSES = 4  # tensors of the size of a chunk that a statistic may make
SMALL = 2**20  # bytes that nobody is asked for


@dataclass
class Allowance:
    """Limits, and what the last steps took: samples of the next ones follow from it."""

    limit: int | None = None  # bytes for chunks, and for factors that are kept; None: by the device
    samples: int | None = None  # of a batch, whose individual gradients are taken; None: as many as fit
    seed: int = 0
    share: float = SHARE
    standing: int = field(default=0, init=False)  # bytes of ours that stay on the device from step to step
    held: int = field(default=0, init=False)  # bytes of factors that are kept now
    _peak: int = field(default=0, init=False)  # bytes that training alone takes on a GPU
    _top: int = field(default=0, init=False)  # bytes that were ever allocated when our last pass was over
    _end: int | None = field(default=None, init=False)  # bytes that may be allocated during this pass
    _room: int | None = field(default=None, init=False)  # bytes for factors, where they did not fit
    _crowded: bool = field(default=False, init=False)  # they did not fit in this step
    _needed: float = field(default=0.0, init=False)  # bytes for each sample, of the last steps
    _drawn: int = field(default=0, init=False)

    def begin(self) -> None:
        """A step begins: nothing is held."""
        self.held, self._crowded = 0, False

    def enter(self, like: Tensor, vectors: int) -> None:
        """A backward pass is about to run, with so many bytes of ours on its device for this step only."""
        if not on_gpu(like):
            return
        ours, now, top = vectors + self.standing, allocated(like), most_allocated(like)
        seen = top if top > self._top else now  # higher than where our last pass left it: training went there alone
        peak = max(seen - ours, now - ours - self.held)
        if peak > 1.01 * self._peak:
            self._peak, self._room = peak, None
        self._end = min(self._peak + self._more(), now + int(SHARE_OF_FREE * free(like)))

    def leave(self, like: Tensor, samples: int) -> None:
        """The pass is over; so many samples' factors were held, or were too many to hold."""
        if on_gpu(like):
            self._top = most_allocated(like)
        if samples and self.held:
            self._needed = max(self._needed, self.held / samples)

    def elements(self, like: Tensor) -> int:
        """How many elements of g_n may be formed at once."""
        most = CHUNK_ON_GPU if on_gpu(like) else CHUNK_ON_CPU
        if self.limit is None and not on_gpu(like):
            return most
        fitting = self._unused(like) // (PASSES * max(4, like.dtype.itemsize))
        return min(most, max(fitting, 1 if self.limit is not None else SMALLEST))

    def choose(self, samples: int, kept: bool) -> Tensor | None:
        """Samples whose individual gradients are taken, drawn without replacement; None: all of them.

        ``kept``: the factors of this step stay until it is over.
        """
        most = samples if self.samples is None else min(samples, self.samples)
        if kept and self._room is not None and self._needed:
            most = min(most, max(2, int(self._room / self._needed)))
        most = max(1, most)
        if most >= samples:
            return None
        self._drawn += 1
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self._drawn) % 2**63)
        return torch.randperm(samples, generator=generator, device="cpu")[:most].sort().values

    def keep(self, tensors: list[Tensor]) -> bool:
        """Whether there is room for these factors; they count as held, so that after a refusal others follow."""
        size, like = sum(tensor.nbytes for tensor in tensors), tensors[0]
        asked = self.limit is not None or not on_gpu(like) or size >= SMALL
        if asked and not self._crowded and size > (unused := self._unused(like)):
            self._crowded, self._room = True, self.held + max(0, unused)
        self.held += size
        return not self._crowded

    def halve(self, like: Tensor) -> None:
        """The device ran out of memory."""
        self.limit = max(1, (self.limit or max(LEAST, self._unused(like))) // 2)

    @property
    def said(self) -> str:
        """What keeping contributions took in the last steps, and the limit, in words; empty where none were kept."""
        if not self._needed:
            return ""
        fits = "which fits" if self._room is None else f"of {self._room / 2**20:,.0f} MiB"
        return f"{self._needed / 2**10:,.1f} KiB for each sample, {fits}"

    def on_host(self, size: int, like: Tensor) -> bool:
        """Whether vectors of so many bytes, which are read once a step, are to lie in the host's memory."""
        return on_gpu(like) and size > max(LEAST, int(self.share * max(self._peak, most_allocated(like))))

    def roomy(self, like: Tensor) -> bool:
        """Before a step: whether there is room for one that takes twice the memory, as fused code that is not does."""
        return not on_gpu(like) or free(like) >= 2 * (most_allocated(like) - allocated(like))

    def _more(self) -> int:
        return max(int(self.share * self._peak), LEAST)

    def _unused(self, like: Tensor) -> int:
        """Bytes that may still be taken."""
        if self.limit is not None:
            return self.limit - self.held
        if not on_gpu(like):
            return max(int(self.share * resident()), LEAST) - self.held
        if self._end is None:
            self.enter(like, 0)
        assert self._end is not None
        return self._end - allocated(like)


def on_gpu(like: Tensor) -> bool:
    """Whether memory is a GPU's."""
    return like.is_cuda


def allocated(like: Tensor) -> int:
    """Bytes that all tensors on a GPU take."""
    return int(_stats(like)["current"])


def most_allocated(like: Tensor) -> int:
    """The most bytes that all tensors on a GPU ever took."""
    return int(_stats(like)["peak"])


def _stats(like: Tensor) -> dict[str, int]:
    every = torch.cuda.memory_stats_as_nested_dict(like.device)
    found: dict[str, int] = every["allocated_bytes"]["all"] if every else {"current": 0, "peak": 0}
    return found


def free(like: Tensor) -> int:
    """Bytes of a GPU that this process may take, and those that torch has in reserve."""
    unused, total = torch.cuda.mem_get_info(like.device)
    reserved = torch.cuda.memory_reserved(like.device)
    share = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    allowed = int(total * share(like.device)) - reserved if share is not None else unused
    return int(max(0, min(unused, allowed)) + reserved - allocated(like))


def resident() -> int:
    """The most bytes of the host's memory that this process ever took; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
