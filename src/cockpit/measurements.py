"""Measures quantities as soon as the numbers they read have arrived from the device, in the order of the steps."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from math import isfinite
from typing import Any

import numpy as np
import torch

from cockpit.core.errors import Undefined, why
from cockpit.core.record import Record, records
from cockpit.departure import Departure, arrive_together, leave_together
from cockpit.engine.block import Block, alike
from cockpit.engine.observation import Observation
from cockpit.journal import Journal
from cockpit.quantities._base import Measured, Quantity, SingleStepQuantity

log = logging.getLogger("cockpit")

LIMIT = 64  # steps that may wait; then training waits for the device
TOGETHER = 48  # steps that are measured in one go: some work is then done once, on what is in the caches
LATE = 0.05  # seconds that the first of them may wait
SAMPLED = 16  # the time of a quantity is taken at every so manieth measurement: asking the clock costs as much
ROOM = 2**20  # numbers of steps that are measured at once: 8 MB; with more of them Python is not what takes long
OURS = "cockpit.quantities."

Complain = Callable[[str, Exception], None]  # of a fault that costs time only


@dataclass(slots=True)
class Waiting:
    """What is to be done when the numbers of a step are there."""

    step: Observation
    check: Callable[[], None] | None = None  # a first look at the numbers, which may change what they mean
    arriving: Departure | None = None  # where the step before began
    quantities: list[tuple[Sequence[Quantity], int]] = field(default_factory=list)  # under which step, from this one
    leaving: Departure | None = None
    end: Callable[[], None] | None = None  # what comes last; None: the step goes on
    since: float = field(default_factory=time.perf_counter)


class Measurements:
    """A queue of steps whose numbers may still be on their way."""

    def __init__(self, journal: Journal, book: Callable[[str, float, int], None]) -> None:
        self._journal, self._book = journal, book
        self._waiting: deque[Waiting] = deque()
        self._count, self._complained = 0, set[str]()

    def of(self, step: Observation) -> Waiting:
        """What is to be done with a step."""
        if not self._waiting or self._waiting[-1].step is not step:
            self._waiting.append(Waiting(step))
        return self._waiting[-1]

    def measure(self, quantities: Sequence[Quantity], step: Observation, under: int, patient: bool) -> None:
        """Measure now what looks at more than numbers, the others when these are there; record under a step.

        ``patient``: none of them looks at more.
        """
        if patient:
            if quantities:
                self.of(step).quantities.append((quantities, under - step.step))
            return
        for quantity in quantities:
            if reads_numbers_only(quantity):
                self.of(step).quantities.append(([quantity], under - step.step))
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
            if entry.end is not None:  # the step is complete
                entry.step.numbers.ask()
        with np.errstate(all="ignore"):  # a training run may diverge: what is not finite is recorded as such
            while waiting and (wait or len(waiting) > LIMIT or waiting[0].step.numbers.ready):
                entry, goes_on = waiting[0], len(waiting) == 1 and not wait and waiting[0].end is None
                if goes_on and not pause and self._patient(entry):
                    break
                together = self._complete(wait)
                if len(together) > 1:
                    self._do_together(together)
                    continue
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

    @property
    def late(self) -> bool:
        """Whether a step that is over has waited longer than it would while training goes on."""
        return self.pending and time.perf_counter() - self._waiting[0].since > 2 * LATE

    def meanwhile(self) -> bool:
        """Measure the steps that are over and whose numbers are there; True if some still wait."""
        for entry in self._waiting:
            if entry.end is not None:
                entry.step.numbers.ask()
        with np.errstate(all="ignore"):
            together = self._complete(wait=False)
            if len(together) > 1:
                self._do_together(together)
            elif together:
                self._do(together[0])
                self._waiting.popleft()
        return self.pending

    def _complete(self, wait: bool) -> list[Waiting]:
        """The first steps that have ended and whose numbers are there."""
        found = []
        for entry in self._waiting:
            if entry.end is None or not (wait or entry.step.numbers.ready):
                break
            found.append(entry)
        return found

    def _patient(self, entry: Waiting) -> bool:
        """Whether a step may be measured with later ones; one whose numbers were looked at already never waits."""
        return not entry.step.prompt and self._count > SAMPLED

    def _due(self) -> bool:
        """Whether steps are to be measured now."""
        first = self._waiting[0]
        few = len(self._waiting) <= TOGETHER and self._patient(first)
        return not few or time.perf_counter() - first.since > LATE

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
        timed = self._count < SAMPLED or self._count % SAMPLED == 0
        self._count += 1
        for quantities, shift in entry.quantities:
            self._record(quantities, entry.step, entry.step.step + shift, timed)
        if entry.leaving is not None:
            entry.leaving.leave(entry.step)

    def _do_together(self, entries: list[Waiting]) -> None:
        """Steps that have ended: those that are alike are measured at once, recorded is each in its turn."""
        try:
            found = Together(entries, self._book, self._complain).records()
        except Exception as error:  # a fault of ours
            self._complain("steps are measured one by one", error)
            found = {}
        for entry in entries:
            columns = found.get(id(entry))
            if columns is None or entry.end is None:
                self._do(entry)
            else:
                self._count += 1
                for (quantities, shift), measured in zip(entry.quantities, columns, strict=True):
                    self._keep(quantities, entry.step.step + shift, measured)
                entry.end()
            self._waiting.popleft()

    def _complain(self, what: str, error: Exception) -> None:
        """Say it once: the numbers are right all the same."""
        if what not in self._complained:
            log.warning("%s: %s", what, why(error))
        self._complained.add(what)

    def _record(self, quantities: Sequence[Quantity], step: Observation, under: int, timed: bool) -> None:
        measured = []
        for quantity in quantities:
            begin = time.perf_counter() if timed else 0.0
            measured.append(_measured(quantity, step, under))
            if timed:
                self._book(quantity.name, time.perf_counter() - begin, 1)
        self._keep(quantities, under, measured)

    def _keep(self, quantities: Sequence[Quantity], under: int, measured: Sequence[Record]) -> None:
        self._journal.extend(under, measured)
        for quantity, record in zip(quantities, measured, strict=True):
            quantity.keep(under, record.value)


class Together:
    """Steps that have ended, measured in blocks of those that are alike.

    Nothing is recorded here, and whatever is done may be done again: where a step is unusual, or a quantity cannot
    measure several, each step is looked at on its own.
    """

    def __init__(self, entries: Sequence[Waiting], book: Callable[[str, float, int], None], complain: Complain) -> None:
        self._book, self._complain = book, complain
        self._groups: list[tuple[list[Waiting], Block | None]] = []
        for group in _groups(entries):
            block = Block([entry.step for entry in group]) if len(group) > 1 else None
            usual = block is not None and (group[0].check is None or block.settled())
            self._groups.append((group, block if usual else None))

    def records(self) -> dict[int, tuple[Sequence[Record], ...]]:
        """What is to be recorded, for each entry of which more than one is alike, by its ``id``."""
        for group, block in self._groups:  # before any arrives: the next step may be of another kind
            self._leave(group, block)
        found: dict[int, tuple[Sequence[Record], ...]] = {}
        for group, block in self._groups:
            if block is not None:
                self._arrive(group, block)
                columns = [self._columns(group, block, *each) for each in group[0].quantities]
                rows = zip(*columns, strict=True) if columns else repeat(())
                found.update(zip(map(id, group), rows, strict=False))
        return found

    def _leave(self, group: list[Waiting], block: Block | None) -> None:
        departures = [entry.leaving for entry in group if entry.leaving is not None]
        if block is not None and departures:
            with suppress(Undefined):
                leave_together(departures, block)
                return
        for entry in group:
            if block is None and entry.check is not None:
                entry.check()
            if entry.leaving is not None:
                entry.leaving.leave(entry.step)

    def _arrive(self, group: list[Waiting], block: Block) -> None:
        departures = [entry.arriving for entry in group if entry.arriving is not None]
        if departures:
            try:
                arrive_together(departures, block)
            except Undefined:
                _arrive_singly(group)

    def _columns(
        self, group: list[Waiting], block: Block, quantities: Sequence[Quantity], shift: int
    ) -> Iterator[tuple[Record, ...]]:
        """The records of some quantities, for each step."""
        unders, columns = [step.step + shift for step in block.steps], []
        for quantity in quantities:
            begin = time.perf_counter()
            found = _series(quantity, block, unders, self._complain)
            if found is None:
                _arrive_singly(group)
                found = [_measured(quantity, step, under) for step, under in zip(block.steps, unders, strict=True)]
            columns.append(found)
            self._book(quantity.name, time.perf_counter() - begin, len(group))
        return zip(*columns, strict=True)


def _arrive_singly(group: list[Waiting]) -> None:
    for entry in group:
        if entry.arriving is not None and entry.step.line is None:
            entry.arriving.arrive(entry.step)


def _groups(entries: Sequence[Waiting]) -> list[list[Waiting]]:
    """Steps of a kind: with lines between every other step there are two kinds."""
    groups: list[list[Waiting]] = []
    for entry in entries:
        for group in groups:
            if _same(group[0], entry):
                group.append(entry)
                break
        else:
            groups.append([entry])
    return [part for group in groups for part in _parts(group)]


def _parts(group: list[Waiting]) -> Iterator[list[Waiting]]:
    most = max(1, ROOM // max(1, group[0].step.numbers.size))
    for begin in range(0, len(group), most):
        yield group[begin : begin + most]


def _same(one: Waiting, other: Waiting) -> bool:
    """Whether the same is to be done with both."""
    return (
        (one.check is None) is (other.check is None)
        and (one.arriving is None) is (other.arriving is None)
        and (one.leaving is None) is (other.leaving is None)
        and one.quantities == other.quantities
        and alike(one.step, other.step)
    )


def _series(quantity: Quantity, block: Block, unders: Sequence[int], complain: Complain) -> list[Record] | None:
    """Measure several steps at once; None if this quantity cannot, or not these steps."""
    if not type(quantity).__module__.startswith(OURS):  # a subclass may have changed anything
        return None
    try:
        series = quantity.measure_together(block)
    except Undefined:  # of which step, each is asked on its own
        return None
    except Exception as error:  # a fault of ours
        complain(f"{quantity.name}: steps are measured one by one", error)
        return None
    return None if series is None else records(unders, quantity.name, quantity.kind, series.values, series.details)


def _measured(quantity: Quantity, step: Observation, under: int) -> Record:
    try:
        measured = quantity.measure(step) if quantity._compute is None else _computed(quantity, step)
        return _as_record(quantity, under, measured)
    except Exception as error:  # undefined, or a fault of ours: never one of the user's loop
        return Record(under, quantity.name, quantity.kind, None, why(error))


def reads_numbers_only(quantity: Quantity) -> bool:
    """A user's subclass of a quantity of ours may look at anything."""
    ours = type(quantity).measure.__module__.startswith(OURS)
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
