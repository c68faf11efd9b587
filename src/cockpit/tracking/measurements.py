"""Measures quantities as soon as the numbers they read have arrived from the device, in the order of the steps."""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import torch

from cockpit.core.errors import why
from cockpit.core.journal import Journal
from cockpit.core.record import COVERED, PROCESS, Record
from cockpit.engine.needs import DISTANCE, UPDATE, Need, per_sample
from cockpit.engine.observation import Observation
from cockpit.quantities._base import Measured, Quantity, SingleStepQuantity
from cockpit.tracking.departure import Departure

log = logging.getLogger("cockpit")

LIMIT = 64  # steps that may wait; then training waits for the device
OURS = "cockpit.quantities."


@dataclass(slots=True)
class Waiting:
    """What is to be done when the numbers of a step are there."""

    step: Observation
    check: Callable[[], None] | None = None  # a first look at the numbers, which may change what they mean
    arriving: Departure | None = None  # where the step before began
    quantities: list[tuple[Quantity, int]] = field(default_factory=list)  # under which step, from this one
    leaving: Departure | None = None
    end: Callable[[], None] | None = None  # what comes last; None: the step goes on


class Measurements:
    """A queue of steps whose numbers may still be on their way."""

    def __init__(self, journal: Journal, book: Callable[[str, float, int], None]) -> None:
        self._journal, self._book = journal, book
        self._waiting: deque[Waiting] = deque()

    def of(self, step: Observation) -> Waiting:
        """What is to be done with a step."""
        if not self._waiting or self._waiting[-1].step is not step:
            self._waiting.append(Waiting(step))
        return self._waiting[-1]

    def measure(self, quantities: Sequence[Quantity], step: Observation, under: int) -> None:
        """Measure now what looks at more than numbers, the others when these are there; record under a step."""
        for quantity in quantities:
            if reads_numbers_only(quantity):
                self.of(step).quantities.append((quantity, under - step.step))
            else:
                self.settle(wait=True)
                self._record(quantity, step, under)

    def settle(self, wait: bool = False) -> bool:
        """Do what can be done without waiting, or everything; False if something still waits for the device."""
        waiting = self._waiting
        for entry in waiting:
            if entry.end is not None:  # the step is complete
                entry.step.numbers.send()
        with np.errstate(all="ignore"):  # a training run may diverge: what is not finite is recorded as such
            while waiting and (wait or len(waiting) > LIMIT or waiting[0].step.numbers.ready):
                entry, goes_on = waiting[0], len(waiting) == 1 and not wait and waiting[0].end is None
                self._do(entry)
                if goes_on:
                    break  # more may come
                waiting.popleft()
        return not waiting

    @property
    def pending(self) -> bool:
        """Whether a step that is over waits to be measured."""
        waiting = self._waiting
        try:
            return bool(waiting) and waiting[0].end is not None
        except IndexError:  # the training has just measured it
            return False

    def meanwhile(self) -> bool:
        """Measure the steps that are over and whose numbers are there; True if some still wait."""
        with np.errstate(all="ignore"):
            while self.pending and self._waiting[0].step.numbers.ready:
                self._do(self._waiting[0])
                self._waiting.popleft()
        return self.pending

    def give_up(self) -> int:
        """Forget what waits; how many steps these were."""
        lost = len(self._waiting)
        self._waiting.clear()
        return lost

    def _do(self, entry: Waiting) -> None:
        """One step on its own; a fault costs this step and no other."""
        try:
            self._measure(entry)
        except Exception as error:
            log.warning("step %s could not be measured: %s", entry.step.step, why(error))
        if entry.end is not None:
            entry.end()
        entry.check, entry.arriving, entry.quantities = None, None, []

    def _measure(self, entry: Waiting) -> None:
        if entry.check is not None:
            entry.check()
        if entry.arriving is not None:
            entry.arriving.arrive(entry.step)
        for quantity, shift in entry.quantities:
            self._record(quantity, entry.step, entry.step.step + shift)
        if entry.leaving is not None:
            entry.leaving.leave(entry.step)

    def _record(self, quantity: Quantity, step: Observation, under: int) -> None:
        begin = time.perf_counter()
        record = _measured(quantity, step, under)
        self._book(quantity.name, time.perf_counter() - begin, 1)
        self._journal.keep(record)
        quantity.keep(under, record.value)


def _measured(quantity: Quantity, step: Observation, under: int) -> Record:
    try:
        measured = quantity.measure(step) if quantity._compute is None else _computed(quantity, step)
        record = _as_record(quantity, under, measured)
        part = _part(step, quantity.needs) if step.coverage < 1 or step.settings.process else None
        return record._replace(details={**record.details, **part}) if part else record
    except Exception as error:  # undefined, or a fault of ours: never one of the user's loop
        return Record(under, quantity.name, quantity.kind, None, why(error))


def _part(step: Observation, needs: frozenset[Need]) -> dict[str, Any]:
    """Of what a value is, where it is not of all elements or not of all samples: said wherever it is shown."""
    part: dict[str, Any] = {COVERED: step.coverage} if step.coverage < 1 and per_sample(needs) else {}
    everywhere = needs and needs <= {DISTANCE, UPDATE}  # the same in all processes
    return part | ({PROCESS: step.settings.process} if step.settings.process and not everywhere else {})


def reads_numbers_only(quantity: Quantity) -> bool:
    """A user's subclass of a quantity of ours may look at anything."""
    ours = type(quantity).measure.__module__.startswith(OURS)
    return quantity.deferred and ours and quantity._compute is None


def _computed(quantity: Quantity, step: Observation) -> Any:
    """By ``_compute``, where a subclass in the paper's way overrides it."""
    with torch.enable_grad():
        return SingleStepQuantity.measure(quantity, step)  # type: ignore[arg-type]


def _as_record(quantity: Quantity, step: int, measured: Any) -> Record:
    name, kind, value = quantity.name, quantity.kind, measured
    details: Mapping[str, Any] = {}
    if isinstance(measured, Measured):
        value, details = measured.value, measured.details
    if isinstance(value, float):
        if not isfinite(value) and name != "Loss":
            return Record(step, name, kind, None, "not finite", details)
    elif isinstance(value, dict):
        wrong = [key for key, entry in value.items() if isinstance(entry, float) and not isfinite(entry)]
        if wrong:
            names = ", ".join(wrong[:5]) + (" ..." if len(wrong) > 5 else "")
            return Record(step, name, kind, value, f"not finite: {names}", details)
    return Record(step, name, kind, value, None, details)
