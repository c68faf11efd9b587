"""The engine of one machine: a process for each core or GPU, which ends with the sweep, however that ends."""

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cockpit.bench.sweep import pipes
from cockpit.bench.sweep.engine import News, Parcel
from cockpit.bench.sweep.making import Context
from cockpit.core.errors import CockpitError

STARTS = 3  # of a worker that ends before it is ready


class Local:
    """Workers on this machine."""

    def __init__(self, context: Context, workers: int, devices: Sequence[str]) -> None:
        self.slots = workers
        self._queue: queue.Queue[tuple[_Process, int, Any]] = queue.Queue()
        contexts = [replace(context, device=devices[place % len(devices)]) for place in range(workers)]
        self._idle = [_Process(one, self._queue) for one in contexts]
        self._busy: dict[int, _Process] = {}
        self._failed_starts = 0

    def send(self, parcel: Parcel) -> None:
        """See :class:`Engine`."""
        process = self._idle.pop()
        self._busy[parcel.number] = process
        process.send(parcel)

    def news(self, timeout: float) -> Sequence[News]:
        """See :class:`Engine`."""
        found: list[News] = []
        with suppress(queue.Empty):
            while True:
                found += self._taken(*self._queue.get(timeout=0 if found else timeout))
        return found

    def close(self) -> None:
        """See :class:`Engine`."""
        for process in (*self._idle, *self._busy.values()):
            process.kill()

    def _taken(self, process: "_Process", start: int, message: Any) -> list[News]:
        number = next((number for number, one in self._busy.items() if one is process), None)
        if message == pipes.READY:
            self._failed_starts = 0
            return []
        if number is None or start != process.starts:  # it died while it had nothing to do, and is started when needed
            return []
        if isinstance(message, pipes.End):
            if not message.ready:
                self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise CockpitError(f"a worker does not start: it ended with {message.reason}; see its words above")
            self._idle.append(self._busy.pop(number))
            return [News(number, died=message.reason)]
        if isinstance(message, pipes.Over):
            self._idle.append(self._busy.pop(number))
            return [News(number, over=True)]
        if isinstance(message, pipes.Epoch):
            return [News(number, epochs=(message.trained, message.epochs))]
        return [News(number, tuple(message))]


class _Process:
    """A worker process; one that has ended is started again when it is needed."""

    def __init__(self, context: Context, news: "queue.Queue[tuple[_Process, int, Any]]") -> None:
        self._context, self._news = context, news
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None

    def send(self, parcel: Parcel) -> None:
        """Give it work; started where it has ended, or never began."""
        if self._process is None or self._process.poll() is not None:
            self.kill()
            self._start()
        self._write(parcel)

    def kill(self) -> None:
        """End it."""
        if self._process is not None and self._listener is not None:
            self._process.kill()
            self._listener.join()
            for stream in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    if stream is not None:
                        stream.close()

    def _start(self) -> None:
        command = [sys.executable, "-m", "cockpit.bench.sweep.worker"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True)
        self.starts += 1
        self._listener = threading.Thread(target=self._listen, args=(self._process, self.starts), daemon=True)
        self._listener.start()
        self._write(self._context)

    def _write(self, message: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended: its listener says so
            pipes.write(self._process.stdin, message)

    def _listen(self, process: "subprocess.Popen[bytes]", start: int) -> None:
        ready = False
        assert process.stdout is not None
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                message = pipes.read(process.stdout)
                ready = True
                self._news.put((self, start, message))
        self._news.put((self, start, pipes.End(_reason(process.wait()), ready)))


def _reason(code: int) -> str:
    """What a process ended with, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    return f"signal {-code} ({name})"
