"""The records of a run, live on the dashboard: all instruments of a watch, or the losses that training knows anyway."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.schedule import linear
from cockpit.store import Writer, create
from cockpit.tracking.attach import watch
from cockpit.tracking.describe import describe

PAUSE = 2.0  # seconds from one look at the losses to the next: each look waits for the device


class Live(Protocol):
    """Who records a run; a context that closes it."""

    def mean(self, losses: Tensor) -> Tensor:
        """Make one loss of individual ones."""

    def stepped(self, loss: Tensor) -> None:
        """A step was trained on this loss."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record numbers beside what is measured."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None: ...


class Watched:
    """Everything that a preset of quantities measures."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        folder: Path,
        *,
        preset: str,
        every: int | None,
        scaler: Any,
        name: str,
        step: int,
        steps: int,
    ) -> None:
        self._pit = watch(
            model,
            optimizer,
            quantities=preset,
            every=every,
            run=folder,
            name=name,
            scaler=scaler,
            step=step,
            steps=steps,
            resume=True,
        )
        self.mean = self._pit.loss

    def stepped(self, loss: Tensor) -> None:
        """See :class:`Live`."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """See :class:`Live`."""
        self._pit.log(step, **metrics)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pit.__exit__(kind, error, trace)


class Plain:
    """Mini-batch losses and learning rates; nothing is attached to the model, and training waits for nothing."""

    mean = staticmethod(torch.mean)

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, folder: Path, *, interval: int, name: str, step: int, steps: int
    ) -> None:
        known = {**describe(model, [optimizer], None, [], linear(interval), steps), "name": name}
        self._writer: Writer = create(folder, known, step)
        self._optimizer, self._interval, self._step, self._looked = optimizer, interval, step, time.monotonic()
        self._waiting: list[tuple[int, float, Tensor]] = []  # step, learning rate, loss

    def stepped(self, loss: Tensor) -> None:
        """See :class:`Live`."""
        if self._step % self._interval == 0:
            self._waiting.append((self._step, float(self._optimizer.param_groups[0]["lr"]), loss))
            if time.monotonic() - self._looked > PAUSE:
                self._look()
        self._step += 1

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """See :class:`Live`."""
        self._look()
        self._writer.append([Record(step, name, Kind.SCALAR, float(value)) for name, value in metrics.items()])

    def _look(self) -> None:
        """Write the losses since the last look."""
        waiting, self._waiting, self._looked = self._waiting, [], time.monotonic()
        self._writer.step = self._step
        if waiting:
            losses = torch.stack([loss for _, _, loss in waiting]).tolist()
            for (step, rate, _), loss in zip(waiting, losses, strict=True):
                named = {"Loss": loss, "learning_rate": rate}
                self._writer.append([Record(step, name, Kind.SCALAR, value) for name, value in named.items()])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._look()
            self._writer.close("finished")
        else:
            self._writer.close("crashed", f"{type(error).__name__}: {error}".rstrip(": "))
