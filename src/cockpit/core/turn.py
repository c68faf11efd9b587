"""Two threads: a training, which never waits for the other to begin, and what is done for it meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class Turn:
    """``with turn:`` is the training's; ``turn.spare()`` is for others, who are refused while it is inside.

    Not a lock: the training may enter it again from another thread, while the first one waits for that thread.
    """

    def __init__(self) -> None:
        self._guard = threading.Condition(threading.Lock())
        self._inside, self._spare = 0, 0  # entries of the training; the thread of the other, or 0

    def __enter__(self) -> None:
        with self._guard:
            self._inside += 1
            while self._spare not in (0, threading.get_ident()):
                self._guard.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._guard:
            self._inside -= 1

    @contextmanager
    def spare(self) -> Iterator[bool]:
        """Whether there is time now; if so the training waits until the block is left."""
        with self._guard:
            free = not self._inside and not self._spare
            self._spare = threading.get_ident() if free else self._spare
        try:
            yield free
        finally:
            if free:
                with self._guard:
                    self._spare = 0
                    self._guard.notify_all()
