"""The small results of a step: on the device until someone reads them, then fetched together in one copy.

Reading a single number of a GPU makes the host wait for all work queued there; a training loop that never does so runs
far ahead. So results are packed into one vector, copied in the background, and read some steps later.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Key = Hashable
Shapes = dict[Key, tuple[int, ...]]  # in the order in which they are packed


def pack(tensors: Mapping[Key, Tensor]) -> tuple[Tensor, Shapes]:
    """All elements in one vector of double precision: it holds counts up to 2^53 exactly."""
    shapes = {key: tuple(tensor.shape) for key, tensor in tensors.items()}
    return torch.cat([tensor.reshape(-1).double() for tensor in tensors.values()]), shapes


@dataclass(slots=True)
class Parcel:
    """A packed vector on its way to the host."""

    shapes: Shapes
    host: Tensor
    event: "torch.cuda.Event | None"

    @classmethod
    def send(cls, packed: Tensor, shapes: Shapes) -> "Parcel":
        """Start the copy."""
        if not packed.is_cuda:
            return cls(shapes, packed.detach().cpu().clone(), None)
        host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
        host.copy_(packed, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(packed.device))
        return cls(shapes, host, event)

    @property
    def arrived(self) -> bool:
        """Whether the copy is complete."""
        return self.event is None or self.event.query()

    def open(self) -> dict[Key, NDArray[np.float64]]:
        """Wait for the copy and take it apart."""
        if self.event is not None:
            self.event.synchronize()
        flat, place, found = self.host.numpy(), 0, {}
        for key, shape in self.shapes.items():
            size = prod(shape)
            found[key] = flat[place : place + size].reshape(shape)
            place += size
        return found


class Numbers:
    """Results by key; putting one never waits, reading one may."""

    def __init__(self, hold: bool = False) -> None:
        self._hold = hold  # keep tensors as they are, for :meth:`packed`
        self._here: dict[Key, NDArray[np.float64]] = {}
        self._waiting: dict[Key, Tensor] = {}
        self._packed: list[tuple[Tensor, Shapes]] = []
        self._sent: list[Parcel] = []

    def put(self, key: Key, tensor: Tensor) -> None:
        """Take a small tensor."""
        if tensor.device.type == "cpu" and not self._hold:
            narrow = tensor.dtype in (torch.bfloat16, torch.float16)
            self._here[key] = (tensor.float() if narrow else tensor.detach()).numpy()
        else:
            self._waiting[key] = tensor

    def put_packed(self, packed: Tensor, shapes: Shapes) -> None:
        """Take results that are packed already."""
        self._packed.append((packed, shapes))

    def packed(self) -> tuple[Tensor, Shapes]:
        """Everything put since the last time, packed."""
        waiting, self._waiting = self._waiting, {}
        return pack(waiting)

    def drop(self, key: Key) -> None:
        """Forget a result that turned out to be wrong; everything must have been read."""
        self._here.pop(key, None)

    def replace_packed(self, packed: Tensor, shapes: Shapes) -> None:
        """Take a vector that begins with the one taken before."""
        if self._packed:
            self._packed[0] = packed, shapes
        else:
            self._packed.append((packed, shapes))

    def send(self) -> None:
        """Start copying everything that is still on the device."""
        if self._waiting:
            self._packed.append(pack(self._waiting))
            self._waiting = {}
        if len(self._packed) > 1:
            shapes = {key: shape for _, part in self._packed for key, shape in part.items()}
            self._packed = [(torch.cat([packed for packed, _ in self._packed]), shapes)]
        self._sent += [Parcel.send(packed, shapes) for packed, shapes in self._packed]
        self._packed = []

    @property
    def ready(self) -> bool:
        """Whether everything put so far can be read without waiting."""
        return not self._waiting and not self._packed and all(parcel.arrived for parcel in self._sent)

    def _open(self) -> None:
        self.send()
        for parcel in self._sent:
            self._here.update(parcel.open())
        self._sent = []

    def __contains__(self, key: Key) -> bool:
        if key in self._here or key in self._waiting:
            return True
        return any(key in shapes for _, shapes in self._packed) or any(key in parcel.shapes for parcel in self._sent)

    def __getitem__(self, key: Key) -> NDArray[np.float64]:
        if key not in self._here:
            self._open()
        return self._here[key]
