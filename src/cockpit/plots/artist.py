"""Drawing in a process of its own: the library that draws holds the interpreter, and training would stand still.

``python -m cockpit.plots.artist`` is that process. It reads calls from its standard input, writes what they return to
its standard output, and ends with its input.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, TypeVar
from weakref import finalize

from cockpit.core.errors import CockpitError

GENTLE = 10  # how far the process gives way to training
Result = TypeVar("Result")


class Artist:
    """A process that draws; it starts with the first drawing."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        self.call(os.getpid)

    def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """Return what a function of a module returns there; only one thread at a time may call."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((function, args), process.stdin)
            process.stdin.flush()
            done, drawn = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError):
            self.close()
            raise CockpitError("the process that draws has ended; try again, with less to draw") from None
        if not done:
            raise CockpitError(drawn)
        result: Result = drawn
        return result

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cockpit.plots.artist"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt is meant for the training
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
            finalize(self, _end, self._process)  # where nobody closes it
        return self._process


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process; ending it twice is fine."""
    process.terminate()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()
    process.wait()


def main() -> None:
    """Draw what is asked for until nothing more is."""
    with suppress(AttributeError, OSError):  # Windows has no nice
        os.nice(GENTLE)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what anybody prints is no answer
    serve(sys.stdin.buffer, answers)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each call with whether it worked, and its result or what went wrong."""
    while True:
        try:
            function, args = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = (True, function(*args))
        except CockpitError as error:
            answer = (False, str(error))
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
