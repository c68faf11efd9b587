"""The loss of every step: cloned on the device, many copied to the host together; training never waits for them."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cockpit.core.course import Courses
from cockpit.core.guard import Faults, entry
from cockpit.core.record import Record
from cockpit.engine.autograd.scaler import LossScale
from cockpit.engine.step.backward import backpropagated
from cockpit.engine.step.numbers import Numbers

log = logging.getLogger("cockpit")

TOGETHER = 32  # losses that wait on the device
LONGEST = 0.2  # seconds for which they do
Mark = tuple[int, int] | None


class Ticks:
    """Takes the loss of each step; which passes count is decided as on tracked steps."""

    def __init__(self, parameters: Callable[[], Mapping[str, Tensor]], scale: LossScale, name: str) -> None:
        self.updated = False  #: one of several optimizers has stepped
        self.wake: Callable[[], None] | None = None  #: says that something waits for :meth:`take`
        self._parameters, self._scale, self._name = parameters, scale, name
        self._thread, self._watched = threading.get_ident(), tuple(parameters().values())
        self._buffer = torch.empty(0, dtype=torch.float64, device="cpu")
        self._slots: tuple[Tensor, ...] = ()
        self._first, self._full, self._sent, self._time = 0, 0, 0, 0.0  # the first slot's step; how many are full, sent
        self._passes, self._place, self._version = 0, 0, 0  # of the step under way; a parameter that a pass reached
        self._left: Mark = None
        self._flying: deque[tuple[int, Numbers]] = deque()
        self._kept, self._waiting = Courses(), Courses()  # all that has arrived, and what was not handed out yet
        self._guard, self._faults = threading.Lock(), Faults(log)

    def fault(self, error: Exception) -> None:
        """Leave this step out."""
        self._passes, self.updated = 0, True
        self._faults.say("the loss of a step", error)

    # ---- called by the loop

    @entry
    def sees(self, roots: tuple[Tensor, ...], seeds: tuple[Tensor | None, ...]) -> Callable[[], Any] | None:
        """A backward pass is about to run; see :class:`~cockpit.engine.autograd.tap.Observer`."""
        if self.updated or threading.get_ident() != self._thread or _captured(roots[0]):
            return None
        loss = factor = None
        for root in roots:
            if type(root) is not Tensor or root.numel() != 1:
                break
        else:
            loss, factor = backpropagated(roots, seeds), self._scale.factor(roots[0])
        return partial(self._passed, loss, factor, [_mark(p) for p in self._watched])

    @entry
    def _passed(self, loss: Tensor | None, factor: Tensor | float | None, before: list[Mark]) -> None:
        for place, (p, mark) in enumerate(zip(self._watched, before, strict=True)):  # noqa: B007
            if _mark(p) != mark:
                break
        else:  # another model's
            return
        known, mark = self._watched[self._place], before[self._place]
        elsewhere = self._passes > 0 and known._version != self._version and _mark(known) != mark
        if elsewhere and mark != self._left:
            return  # the user moved the parameters, and may move them back: a closure, or a search for sharpness
        if loss is None or elsewhere or (self._passes > 0 and loss.device != self._buffer.device):  # nothing to add up
            self._passes, self.updated = 0, True
            return
        loss, slot = loss if factor is None else loss / factor, self._slot(loss.device)
        if self._passes and mark == self._left:
            slot.add_(loss)
        else:  # the first one, or the gradients were cleared
            slot.copy_(loss)
            self._place, self._version = place, p._version
        self._left = _mark(self._watched[self._place])
        self._passes += 1

    def _slot(self, device: torch.device) -> Tensor:
        if self._buffer.device != device or not self._slots:
            self._cut()
            wide = torch.float32 if device.type == "mps" else torch.float64
            self._buffer = torch.empty(TOGETHER, dtype=wide, device=device)
            self._slots = self._buffer.unbind()
        return self._slots[self._full]

    @entry
    def finish(self, step: int) -> None:
        """A step is over."""
        self._thread, self.updated = threading.get_ident(), False
        if _captured(self._buffer):
            return
        if not self._passes or (self._full and step != self._first + self._full):
            self._cut()
            return
        self._first = self._first if self._full else step
        self._full, self._passes = self._full + 1, 0
        if self._full == TOGETHER:
            self._cut()
        elif time.perf_counter() - self._time > LONGEST:
            with self._guard:
                self._send()
        elif self._full == self._sent + 1 and self.wake is not None:
            self.wake()

    # ---- to the host

    def _cut(self) -> None:
        """Begin again at the first slot."""
        with self._guard:
            self._send()
            self._full = self._sent = self._passes = 0
        self._watched = tuple(self._parameters().values())

    def _send(self, wait: bool = False) -> None:
        """Start copying what is not yet on its way, and keep what has arrived."""
        if self._full > self._sent:
            numbers = Numbers()
            numbers.put(self._name, self._buffer[self._sent : self._full].clone())
            numbers.send()
            self._flying.append((self._first + self._sent, numbers))
            self._sent, self._time = self._full, time.perf_counter()
            if self.wake is not None:
                self.wake()
        while self._flying and (wait or self._flying[0][1].ready):
            first, numbers = self._flying.popleft()
            self._kept.add(first, numbers[self._name])
            if self.wake is not None:
                self._waiting.add(first, numbers[self._name])

    def records(self) -> list[Record]:
        """All that has arrived."""
        with self._guard:
            return list(self._kept.records(self._name))

    @entry
    def settle(self) -> None:
        """Wait for the device."""
        with self._guard:
            self._send(wait=True)

    @entry
    def take(self) -> list[Record]:
        """Hand out what has arrived since the last time; called in another thread."""
        with self._guard:
            if self._buffer.device.type == "cpu":  # else only the loop's own thread knows the stream
                self._send()
            found, self._waiting = self._waiting, Courses()
        return list(found.records(self._name))


def _captured(tensor: Tensor) -> bool:
    """Whether what is computed now is recorded, to be replayed without us."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _mark(parameter: Tensor) -> Mark:
    """What tells whether a gradient has changed."""
    grad = parameter.grad
    return None if grad is None else (id(grad), grad._version)
