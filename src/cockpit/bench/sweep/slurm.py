"""The engine of a cluster with Slurm: a job for each parcel, by submitit; its results come back in a file."""

import os
import pickle
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cockpit.bench.sweep import remote
from cockpit.bench.sweep.engine import News, Parcel
from cockpit.bench.sweep.making import Context
from cockpit.core.errors import CockpitError
from cockpit.core.writing import whole
from cockpit.results.sweeps.store import Entry, Store

JOBS = 64  # at a time, unless --workers says otherwise
PAUSE = 0.2  # seconds from one look at the files to the next
ENDING = ".parcel"


@dataclass
class _Job:
    parcel: Parcel
    file: Path
    job: Any


class Slurm:
    """Jobs of a cluster."""

    def __init__(self, context: Context, workers: int | None, options: Iterable[str], folder: Path) -> None:
        """Prepare to submit.

        Args:
            context: What workers need to know.
            workers: Jobs at a time.
            options: What submitit's executor takes, as ``"timeout_min=60"``; ``"cluster=local"`` needs no Slurm.
            folder: For files of jobs and of results, on a disk that all machines see.
        """
        try:
            submitit: Any = import_module("submitit")  # not typed throughout
        except ImportError as error:
            raise CockpitError("--on slurm needs submitit; pip install 'cockpit-deck[slurm]'") from error
        known = dict(map(option, options))
        self.slots = workers or JOBS
        self._context, self._folder = context, folder
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._executor = submitit.AutoExecutor(folder / "jobs", cluster=known.pop("cluster", "slurm"))
            self._executor.update_parameters(**{"name": "cockpit", "cpus_per_task": 1, "timeout_min": 60} | known)
        except (RuntimeError, ValueError, NameError) as error:
            raise CockpitError(f"submitit refuses: {error}; give --on slurm:NAME=VALUE,... as it takes them") from error
        self._jobs: dict[int, _Job] = {}
        self._taken: list[Path] = []  # files whose results are committed when we are asked for news again

    def send(self, parcel: Parcel) -> None:
        """See :class:`Engine`."""
        file = self._folder / f"{os.getpid()}-{time.time_ns()}-{parcel.number}{ENDING}"
        self._jobs[parcel.number] = _Job(parcel, file, self._executor.submit(work, self._context, parcel, file))

    def news(self, timeout: float) -> Sequence[News]:
        """See :class:`Engine`."""
        while self._taken:
            self._taken.pop().unlink(missing_ok=True)
        end = time.monotonic() + timeout
        while True:
            found = [news for number, job in list(self._jobs.items()) if (news := self._look(number, job)) is not None]
            if found or time.monotonic() > end:
                return found
            time.sleep(PAUSE)

    def close(self) -> None:
        """See :class:`Engine`."""
        for job in self._jobs.values():
            with suppress(Exception):  # it may be over
                job.job.cancel()

    def _look(self, number: int, job: _Job) -> News | None:
        ended = job.job.done()  # asked before the file is looked for, which is written last
        if job.file.exists():
            del self._jobs[number]
            self._taken.append(job.file)
            return News(number, read(job.file), over=True)
        if not ended:
            return None
        del self._jobs[number]
        return News(number, died=f"state {job.job.state} of job {job.job.job_id}")


def work(context: Context, parcel: Parcel, file: Path) -> None:
    """Carry a parcel out, and leave its results in a file."""
    entries = remote.train(context, parcel)
    with whole(file) as part:
        part.write_bytes(pickle.dumps(entries))


def read(file: Path) -> tuple[Entry, ...]:
    """The results that a worker left in a file."""
    entries: tuple[Entry, ...] = pickle.loads(file.read_bytes())
    return entries


def take_in(folder: Path, store: Store) -> None:
    """Commit results whose sweep ended before it could do that."""
    for file in sorted(folder.glob(f"*{ENDING}")):
        store.commit(read(file))
        file.unlink(missing_ok=True)


def option(text: str) -> tuple[str, Any]:
    """One of submitit's options, as a command line has it."""
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (sign and name and value):
        raise CockpitError(f"--on slurm: {text!r} is not NAME=VALUE; give submitit's, slurm_partition=gpu say")
    return name, int(value) if value.isdigit() else value
