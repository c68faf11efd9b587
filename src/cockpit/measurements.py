"""Measures quantities as soon as the numbers they read have arrived from the device, in the order of the steps."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import torch

from cockpit.core.errors import why
from cockpit.core.record import Record
from cockpit.engine.observation import Observation
from cockpit.journal import Journal
from cockpit.quantities._base import Measured, Quantity, SingleStepQuantity

LIMIT = 64  # steps that may wait; then training waits for the device
TOGETHER = 16  # steps that are measured in one go: what a step needs is then in the processor's caches
LATE = 0.05  # seconds that the first of them may wait
SAMPLED = 16  # the time of a quantity is taken at every so manieth measurement: asking the clock costs as much


@dataclass(slots=True)
class Waiting:
    """What is to be done when the numbers of a step are there."""

    step: Observation
    actions: list[Callable[[], None]] = field(default_factory=list)
    quantities: list[tuple[Sequence[Quantity], int]] = field(default_factory=list)  # and the step to record under
    last: list[Callable[[], None]] = field(default_factory=list)
    since: float = field(default_factory=time.perf_counter)


class Measurements:
    """A queue of steps whose numbers may still be on their way."""

    def __init__(self, journal: Journal, book: Callable[[str, float, int], None]) -> None:
        self._journal, self._book = journal, book
        self._waiting: deque[Waiting] = deque()
        self._count = 0

    def of(self, step: Observation) -> Waiting:
        """What is to be done with a step: first the actions, then the quantities, then what comes last."""
        if not self._waiting or self._waiting[-1].step is not step:
            self._waiting.append(Waiting(step))
        return self._waiting[-1]

    def measure(self, quantities: Sequence[Quantity], step: Observation, under: int, patient: bool) -> None:
        """Measure now what looks at more than numbers, the others when these are there; record under a step.

        ``patient``: none of them looks at more.
        """
        if patient:
            if quantities:
                self.of(step).quantities.append((quantities, under))
            return
        for quantity in quantities:
            if reads_numbers_only(quantity):
                self.of(step).quantities.append(([quantity], under))
            else:
                self.settle(wait=True)
                self._record([quantity], step, under, timed=False)

    def settle(self, wait: bool = False, pause: bool = False) -> bool:
        """Do what can be done without waiting, or everything; ``pause``: no tracked step follows soon.

        False if something still waits for the device.
        """
        waiting = self._waiting
        if not waiting or not (wait or pause or self._due()):
            return not waiting
        for entry in waiting:
            if entry.last:  # the step is complete
                entry.step.numbers.ask()
        with np.errstate(all="ignore"):  # a training run may diverge: what is not finite is recorded as such
            while waiting and (wait or len(waiting) > LIMIT or waiting[0].step.numbers.ready):
                self._do(waiting[0])
                if len(waiting) == 1 and not wait and not waiting[0].last:
                    break  # the step goes on: more may come
                waiting.popleft()
        return not waiting

    def _due(self) -> bool:
        """Whether steps are to be measured now; one whose numbers were looked at already never waits."""
        first = self._waiting[0]
        few = len(self._waiting) <= TOGETHER and not first.step.prompt and self._count > SAMPLED
        return not few or time.perf_counter() - first.since > LATE

    def _do(self, entry: Waiting) -> None:
        for action in entry.actions:
            action()
        timed = self._count < SAMPLED or self._count % SAMPLED == 0
        self._count += 1
        for quantities, under in entry.quantities:
            self._record(quantities, entry.step, under, timed)
        for action in entry.last:
            action()
        entry.actions, entry.quantities = [], []

    def _record(self, quantities: Sequence[Quantity], step: Observation, under: int, timed: bool) -> None:
        records = []
        for quantity in quantities:
            begin = time.perf_counter() if timed else 0.0
            try:
                measured = quantity.measure(step) if quantity._compute is None else _computed(quantity, step)
                records.append(_as_record(quantity, under, measured))
            except Exception as error:  # undefined, or a fault of ours: never one of the user's loop
                records.append(Record(under, quantity.name, quantity.kind, None, why(error)))
            if timed:
                self._book(quantity.name, time.perf_counter() - begin, 1)
        self._journal.extend(under, records)
        for quantity, record in zip(quantities, records, strict=True):
            quantity.keep(under, record.value)


def reads_numbers_only(quantity: Quantity) -> bool:
    """A user's subclass of a quantity of ours may look at anything."""
    ours = type(quantity).measure.__module__.startswith("cockpit.quantities.")
    return quantity.deferred and ours and quantity._compute is None


def _computed(quantity: Quantity, step: Observation) -> Any:
    """By ``_compute``, where a subclass in the paper's way overrides it."""
    with torch.enable_grad():
        return SingleStepQuantity.measure(quantity, step)  # type: ignore[arg-type]


def _as_record(quantity: Quantity, step: int, measured: Any) -> Record:
    name, kind, value, details = quantity.name, quantity.kind, measured, _NONE
    if isinstance(measured, Measured):
        value, details = measured.value, measured.details
    if isinstance(value, float):
        if not isfinite(value) and name != "Loss":
            return Record(step, name, kind, None, "not finite", details)
    elif isinstance(value, dict) and not _adds_up(value):
        wrong = [key for key, entry in value.items() if isinstance(entry, float) and not isfinite(entry)]
        if wrong:
            names = ", ".join(wrong[:5]) + (" ..." if len(wrong) > 5 else "")
            return Record(step, name, kind, value, f"not finite: {names}", details)
    return Record(step, name, kind, value, None, details)


def _adds_up(value: dict[str, Any]) -> bool:
    """Whether all entries are certainly finite numbers."""
    try:
        return isfinite(sum(value.values()))
    except TypeError:
        return False


_NONE: Mapping[str, Any] = {}
