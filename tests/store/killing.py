"""A writer in another process that is killed, and what must be left of its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from cockpit.store import StoredRun

VICTIM = """
import sys, time
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import create
step, attempt = int(sys.argv[2]), int(sys.argv[3])
writer = create(sys.argv[1], {"git": None}, step)
while True:
    writer.append([Record(step, f"s{i}", Kind.SCALAR, step + i / 32 + attempt * 2**30) for i in range(20)])
    writer.step = step
    print(step, time.time(), flush=True)
    step += 1
    time.sleep(0.0005)
"""


def kill(folder: Path, first: int, attempt: int, seconds: float) -> list[tuple[int, float]]:
    """Start a writer and kill it; return the steps it appended, and when."""
    command = [sys.executable, "-c", VICTIM, str(folder), str(first), str(attempt)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as victim:
        assert victim.stdout is not None
        begun = victim.stdout.readline()
        time.sleep(seconds)
        os.kill(victim.pid, signal.SIGKILL)
        lines = [begun, *victim.stdout.read().splitlines(keepends=True)]
    return [(int(line.split()[0]), float(line.split()[1])) for line in lines if line.endswith("\n")]


def check(run: StoredRun, told: list[tuple[int, float]], attempt: int) -> float:
    """No record is wrong or missing in between; return how many seconds of records are gone at the end."""
    assert run.state == "crashed", run.state
    assert run.damaged is None or "unfinished" in run.damaged, run.damaged
    found = [run.scalar(f"s{i}") for i in range(20)]
    if not len(found[0]):
        return told[-1][1] - told[0][1]
    steps = found[0].steps
    origin, rest = np.divmod(found[0].values, 2**30)
    assert np.array_equal(steps, np.arange(len(steps))), "steps are missing"
    assert np.array_equal(rest, steps), "a value is wrong"
    for i, series in enumerate(found):
        assert np.array_equal(series.values, steps + i / 32 + origin * 2**30), "a value is wrong"
    kept = steps[origin == attempt]
    assert np.array_equal(kept, np.arange(told[0][0], told[0][0] + len(kept))), "steps are missing or doubled"
    gone = [when for step, when in told if step not in set(kept.tolist())]
    return gone[-1] - gone[0] if gone else 0.0
