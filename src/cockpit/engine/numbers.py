"""The small results of a step: on the device until someone reads them, then fetched together in one copy.

Reading a single number of a GPU makes the host wait for all work queued there; a training loop that never does so runs
far ahead. So results are packed into one vector, copied in the background, and read some steps later.
"""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.engine import native

Key = Hashable
Values = NDArray[np.float64]


class Manifest:
    """Where each result is in a packed vector."""

    def __init__(self, shapes: Mapping[Key, tuple[int, ...]]) -> None:
        self.places: dict[Key, tuple[int, int, tuple[int, ...]]] = {}
        self.size = 0
        for key, shape in shapes.items():
            self.places[key] = self.size, self.size + prod(shape), shape
            self.size += prod(shape)

    def __add__(self, other: "Manifest") -> "Manifest":
        both = {key: shape for part in (self, other) for key, (_, _, shape) in part.places.items()}
        return Manifest(both)


def pack(tensors: Mapping[Key, Tensor]) -> tuple[Tensor, Manifest]:
    """All elements in one vector of double precision: it holds counts up to 2^53 exactly."""
    if native.packable(tensors.values()):
        return native.pack(list(tensors.values())), Manifest({key: tuple(t.shape) for key, t in tensors.items()})
    by_type: dict[torch.dtype, dict[Key, Tensor]] = {}
    for key, tensor in tensors.items():
        by_type.setdefault(tensor.dtype, {})[key] = tensor
    ordered = {key: tuple(tensor.shape) for group in by_type.values() for key, tensor in group.items()}
    parts = [torch.cat([tensor.reshape(-1) for tensor in group.values()]).double() for group in by_type.values()]
    return parts[0] if len(parts) == 1 else torch.cat(parts), Manifest(ordered)


@dataclass
class Harbour:
    """Pinned memory for copies from one device, used again when it has been read."""

    free: deque[tuple[Tensor, Any]] = field(default_factory=deque)

    def send(self, packed: Tensor) -> tuple[Tensor, Any]:
        """Start a copy; returns where it will be and the event that tells that it is."""
        while self.free and self.free[0][0].numel() < packed.numel():
            self.free.popleft()
        if self.free:
            host, event = self.free.popleft()
        else:
            host = torch.empty(packed.numel(), dtype=packed.dtype, device="cpu", pin_memory=True)
            event = torch.cuda.Event()
        host[: packed.numel()].copy_(packed, non_blocking=True)
        event.record(torch.cuda.current_stream(packed.device))
        return host, event


class Parcel:
    """A packed vector on its way to the host."""

    __slots__ = ("_event", "_harbour", "_host", "_read", "_size", "manifest")

    def __init__(self, packed: Tensor, manifest: Manifest, harbour: Harbour) -> None:
        self.manifest, self._harbour = manifest, harbour
        self._event: Any = None
        self._read: Values | None = None
        self._size = packed.numel()
        if packed.is_cuda:
            self._host, self._event = harbour.send(packed)
        else:
            self._read = packed.detach().cpu().numpy().copy()

    @property
    def arrived(self) -> bool:
        """Whether the copy is complete."""
        return self._read is not None or bool(self._event.query())

    def ask(self) -> None:
        """It is under way already."""

    def read(self) -> Values:
        """Wait for the copy."""
        if self._read is None:
            self._event.synchronize()
            self._read = self._host[: self._size].numpy().copy()
            self._harbour.free.append((self._host, self._event))
            del self._host
        return self._read


class Delivery(Protocol):
    """Results on their way to the host."""

    manifest: Manifest

    @property
    def arrived(self) -> bool:
        """Whether they can be read without waiting."""

    def ask(self) -> None:
        """Someone will read them: they must be on their way."""

    def read(self) -> Values:
        """Wait for them."""


class Numbers:
    """Results by key; putting one never waits, reading one may."""

    def __init__(self, hold: bool = False, harbour: Harbour | None = None) -> None:
        self._hold = hold  # keep tensors as they are, for :meth:`packed`
        self._harbour = Harbour() if harbour is None else harbour
        self._here: dict[Key, Values] = {}
        self._lists: dict[Key, list[float]] = {}  # what was read already, until something new is put
        self._waiting: dict[Key, Tensor] = {}
        self._packed: list[tuple[Tensor, Manifest]] = []
        self._sent: list[Delivery] = []
        self._dropped: set[Key] = set()

    def put(self, key: Key, tensor: Tensor) -> None:
        """Take a small tensor."""
        if tensor.device.type == "cpu" and not self._hold:
            narrow = tensor.dtype in (torch.bfloat16, torch.float16)
            self._here[key] = (tensor.float() if narrow else tensor.detach()).numpy()
        else:
            self._waiting[key] = tensor
            self._here.pop(key, None)  # read before it was put anew
        self._lists.pop(key, None)

    def put_packed(self, packed: Tensor, manifest: Manifest) -> None:
        """Take results that are packed already; what was taken so before is contained in them."""
        self._packed = [(packed, manifest)]
        self._lists = {}

    def put_sent(self, delivery: Delivery) -> None:
        """Take results that travel already; they contain what was packed before."""
        self._packed, self._lists = [], {}
        self._sent.append(delivery)

    def ask(self) -> None:
        """They will be read soon."""
        self.send()
        for delivery in self._sent:
            delivery.ask()

    def packed(self, without: frozenset[Key] = frozenset()) -> tuple[Tensor, Manifest]:
        """Everything put since the last time, packed."""
        waiting, self._waiting = self._waiting, {}
        return pack({key: tensor for key, tensor in waiting.items() if key not in without})

    def drop(self, key: Key) -> None:
        """Forget a result that turned out to be wrong."""
        self._dropped.add(key)

    def send(self) -> None:
        """Start copying everything that is still on the device."""
        if self._waiting:
            self._packed.append(pack(self._waiting))
            self._waiting = {}
        if self._packed:
            packed, manifest = self._packed[0]
            for more, beside in self._packed[1:]:
                packed, manifest = torch.cat([packed, more]), manifest + beside
            self._sent.append(Parcel(packed, manifest, self._harbour))
            self._packed = []

    @property
    def ready(self) -> bool:
        """Whether everything put so far can be read without waiting."""
        return not self._waiting and not self._packed and all(parcel.arrived for parcel in self._sent)

    def __contains__(self, key: Key) -> bool:
        if self._dropped and key in self._dropped:
            return False
        for parcel in self._sent:  # a loop: this is asked many times at every tracked step
            if key in parcel.manifest.places:
                return True
        return key in self._here or key in self._waiting or any(key in manifest.places for _, manifest in self._packed)

    def __getitem__(self, key: Key) -> Values:
        """The numbers of a key, in their shape."""
        found = self._here.get(key)
        if found is None:
            flat, shape = self._find(key)
            found = self._here[key] = flat.reshape(shape)
        return found

    def values(self, key: Key) -> list[float]:
        """The numbers of a key, one after the other; not to be changed."""
        found = self._lists.get(key)
        if found is None:
            here = self._here.get(key)
            found = self._lists[key] = (self._find(key)[0] if here is None else here.ravel()).tolist()
        return found

    @property
    def size(self) -> int:
        """How many numbers were sent."""
        return sum(parcel.manifest.size for parcel in self._sent)

    def alike(self, other: "Numbers") -> bool:
        """Whether the same results are at the same places of one vector each, complete and right."""
        if not (self._whole() and other._whole()) or self._here.keys() != other._here.keys():
            return False
        mine, others = self._sent[0].manifest, other._sent[0].manifest
        return mine is others or mine.places == others.places

    def _whole(self) -> bool:
        return len(self._sent) == 1 and not (self._waiting or self._packed or self._dropped)

    def _find(self, key: Key) -> tuple[Values, tuple[int, ...]]:
        if self._waiting or self._packed:
            self.send()
        for parcel in reversed(self._sent):  # what was put last counts
            place = parcel.manifest.places.get(key)
            if place is not None:
                begin, end, shape = place
                return parcel.read()[begin:end], shape
        raise KeyError(key)


class Columns:
    """Numbers that are :meth:`~Numbers.alike`, one row for each, in double precision."""

    def __init__(self, many: Sequence[Numbers]) -> None:
        self._many, self._places = many, many[0]._sent[0].manifest.places
        self._rows = np.array([numbers._sent[0].read() for numbers in many])

    def __contains__(self, key: Key) -> bool:
        return key in self._places or key in self._many[0]._here

    def __getitem__(self, key: Key) -> Values:
        """The numbers of a key; each row is flat."""
        if key in self._many[0]._here:  # put since, or the same
            return np.array([numbers._here[key].ravel() for numbers in self._many], dtype=np.float64)
        begin, end, _ = self._places[key]
        return self._rows[:, begin:end]
