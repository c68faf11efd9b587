"""The small results of a step: on the device until someone reads them, then fetched together in one copy.

Reading a single number of a GPU makes the host wait for all work queued there; a training loop that never does so runs
far ahead. So results are packed into one vector, copied in the background, and read when they have arrived.
"""

from collections.abc import Hashable, Mapping
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Key = Hashable
Values = NDArray[np.float64]


class Numbers:
    """Results by key; putting one never waits, reading one may."""

    def __init__(self) -> None:
        self._here: dict[Key, Values] = {}
        self._waiting: dict[Key, Tensor] = {}
        self._sent: list[_Sent] = []

    def put(self, key: Key, tensor: Tensor) -> None:
        """Take a small tensor, which nobody changes any more."""
        if tensor.device.type == "cpu":
            self._here[key] = tensor.detach().double().numpy()
        else:
            self._waiting[key] = tensor.detach()

    def send(self) -> None:
        """Start copying everything that is still on the device."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            self._sent.append(_Sent(waiting))

    @property
    def ready(self) -> bool:
        """Whether everything put so far can be read without waiting."""
        return not self._waiting and all(sent.arrived for sent in self._sent)

    def __contains__(self, key: Key) -> bool:
        return key in self._here or key in self._waiting or any(key in sent.places for sent in self._sent)

    def __getitem__(self, key: Key) -> Values:
        """The numbers of a key, in their shape, in double precision: it holds counts up to 2^53 exactly."""
        if key not in self._here:
            self.send()
            for sent in self._sent:
                self._here.update(sent.read())
            self._sent.clear()
        return self._here[key]

    def values(self, key: Key) -> list[float]:
        """The numbers of a key, one after the other."""
        return self[key].ravel().tolist()


class _Sent:
    """Results on their way to the host."""

    def __init__(self, tensors: Mapping[Key, Tensor]) -> None:
        self.places: dict[Key, tuple[int, tuple[int, ...]]] = {}
        size = 0
        for key, tensor in tensors.items():
            self.places[key] = size, tuple(tensor.shape)
            size += tensor.numel()
        packed = torch.cat([tensor.reshape(-1).double() for tensor in tensors.values()])
        pinned = packed.device.type == "cuda"
        self._host = torch.empty(size, dtype=torch.float64, device="cpu", pin_memory=pinned)
        self._host.copy_(packed, non_blocking=pinned)
        self._event: Any = None
        if pinned:
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(packed.device))

    @property
    def arrived(self) -> bool:
        """Whether the copy is complete."""
        return self._event is None or bool(self._event.query())

    def read(self) -> dict[Key, Values]:
        """Wait for the copy."""
        if self._event is not None:
            self._event.synchronize()
        flat = self._host.numpy()
        return {key: flat[at : at + prod(shape)].reshape(shape) for key, (at, shape) in self.places.items()}
