"""What was measured in this process: kept in memory, and handed to the run's writer step by step."""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from cockpit.core.errors import CockpitError
from cockpit.core.history import History
from cockpit.core.kinds import Kind
from cockpit.core.record import Record

log = logging.getLogger("cockpit")

SCALAR = Kind.SCALAR  # looked up once: an enumeration takes long to find a member
CONTEXT = re.compile(r"learning_rate(\[\d+\])?|batch_size|tracking_seconds")  # recorded with every tracked step


class Sink(Protocol):
    """Where records go besides the memory."""

    def append(self, records: Sequence[Record]) -> None:
        """Take records; never wait for a disk."""


class Journal:
    """Records of the quantities, of the user, and of the circumstances of each tracked step."""

    def __init__(self) -> None:
        self.history = History()  #: quantities, and what the user logs
        self.context = History()  #: learning rate, batch size and cost of each tracked step
        self.sink: Sink | None = None
        self._waiting: list[Record] = []
        self._warned: set[tuple[str, str]] = set()

    def __iter__(self) -> Iterator[Record]:
        yield from self.context
        yield from map(_apart, self.history)

    def keep(self, record: Record) -> None:
        """Keep a measured value; the reason of an undefined one is said once."""
        self.extend(record.step, [record])

    def extend(self, step: int, records: Sequence[Record]) -> None:
        """Keep the values that were measured at a step."""
        self.history.extend(records)
        self._waiting.extend(records)
        for record in records:
            if record.reason is not None and (record.name, record.reason) not in self._warned:
                self._warned.add((record.name, record.reason))
                log.info("%s is undefined at step %d: %s", record.name, step, record.reason)

    def note(self, step: int, circumstances: Mapping[str, float]) -> None:
        """Keep the circumstances of a tracked step."""
        noted = [Record(step, name, SCALAR, float(value)) for name, value in circumstances.items()]
        self.context.extend(noted)
        self._waiting.extend(noted)

    def log(self, step: int, metrics: Mapping[str, Any], taken: Collection[str]) -> None:
        """Keep the user's own numbers beside the measured ones, under names that are not taken."""
        logged = [Record(step, name, SCALAR, _number(name, value, taken)) for name, value in metrics.items()]
        for record in logged:
            self.history.append(record)
        if self.sink is not None:
            self.sink.append([_apart(record) for record in logged])

    def hand_over(self) -> None:
        """Pass on what has been measured since the last time."""
        waiting, self._waiting = self._waiting, []
        if waiting and self.sink is not None:
            self.sink.append(waiting)

    def discard(self, step: int) -> None:
        """Forget a step that was begun and never taken."""
        self.history.discard(step)
        self.context.discard(step)
        self._waiting = [record for record in self._waiting if record.step != step]


def _apart(record: Record) -> Record:
    """A user may log what is recorded anyway, a learning rate say: neither number hides the other in the run."""
    return record._replace(name=f"{record.name} (logged)") if CONTEXT.fullmatch(record.name) else record


def _number(name: str, value: Any, taken: Collection[str]) -> float:
    if name in taken:
        raise CockpitError(f"log({name}=...): this is the name of a quantity; choose another")
    size = getattr(value, "numel", None) or getattr(value, "size", None)  # a tensor, or numpy's own numbers
    elements = size() if callable(size) else size
    number = value.item() if elements == 1 else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise CockpitError(f"log({name}={value!r}): give a number")
    try:
        return float(number)
    except OverflowError:
        raise CockpitError(f"log({name}=...): the whole number is too large; give a float") from None
