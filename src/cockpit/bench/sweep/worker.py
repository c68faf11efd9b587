"""A worker process: reads parcels, trains their runs, writes what has ended; it ends when the sweep does."""

import os
import queue
import signal
import sys
import threading
from typing import IO, Any

from cockpit.bench.sweep import pipes


def main() -> None:
    """Work until there is nobody to work for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an optimizer prints is no answer
    parcels: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, parcels), daemon=True).start()
    context = parcels.get()

    import torch

    from cockpit.bench.sweep.work import Worker

    torch.set_num_threads(1)
    sys.path.extend(folder for folder in context.folders if folder not in sys.path)
    worker = Worker(context, lambda trained, epochs: pipes.write(answers, pipes.Epoch(trained, epochs)))
    pipes.write(answers, pipes.READY)
    while True:
        parcel = parcels.get()
        for entries in worker.carry_out(parcel.specs):
            pipes.write(answers, entries)
        pipes.write(answers, pipes.Over(parcel.number))


def _receive(stream: IO[bytes], parcels: "queue.Queue[Any]") -> None:
    try:
        while True:
            parcels.put(pipes.read(stream))
    except BaseException:
        os._exit(0)  # whatever it is doing: nobody would take its answer


if __name__ == "__main__":
    main()
