"""One sweep on a store at a time; without torch."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cockpit.store.lock import NAME, Busy, Lock, Pulse, age, alive, host, pulse

BEAT = 5.0  # seconds from one sign of life to the next
FAR = 60.0  # seconds without one after which a sweep on another machine is dead


@contextmanager
def held(folder: Path) -> Iterator[Callable[[], None]]:
    """Keep other sweeps out of a store (:class:`Busy` where one is at work); gives what leaves a sign of life."""
    lock, beaten = Lock(folder), 0.0

    def beat(state: str | None = None) -> None:
        nonlocal beaten
        if state is not None or time.monotonic() - beaten >= BEAT:
            beaten = time.monotonic()
            lock.beat(Pulse(0, os.getpid(), host(), time.time(), state=state))

    try:
        found = lock.found
        if found is not None and found.host != host() and found.state is None and age(lock.path, found) < FAR:
            raise Busy(f"process {found.pid} on {found.host}")
        beat()
        yield beat
        beat("ended")
    finally:
        lock.close()


def living(folder: Path) -> bool:
    """Whether a sweep is at work on a store."""
    found = pulse(folder)
    there = alive(folder, found)
    if there is None:
        return found is not None and found.state is None and age(folder / NAME, found) < FAR
    return there
