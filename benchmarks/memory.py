"""Peak memory of a few steps above what lay there before them.

On CUDA the allocator counts. On a CPU a fresh process trains, and the system counts what it held:

    python benchmarks/memory.py TOOL NET OPTIMIZER QUANTITIES    (prints bytes; QUANTITIES "-": a plain step)
"""

import gc
import importlib
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from nets import Problem
from timing import Interval

STEPS = 6  # so many that recordings are made
STATUS, FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak(tool: Any, net: str, device: str, optimizer: str, what: str | None) -> int:
    """Bytes; ``what`` None: of plain steps."""
    return on_cuda(tool, net, optimizer, what) if device == "cuda" else in_process(tool.name, net, optimizer, what)


def train(tool: Any, problem: Problem, what: str | None) -> None:
    if what is None:
        for _ in range(STEPS):
            problem.step()
    else:
        with tool.watch(problem, what, Interval(1)) as session:
            for _ in range(STEPS):
                session.step()


def on_cuda(tool: Any, net: str, optimizer: str, what: str | None) -> int:
    Problem(net, "cuda", optimizer).step()  # libraries take their workspaces once
    problem = Problem(net, "cuda", optimizer)
    if what is not None:
        problem = tool.prepared(problem)
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    train(tool, problem, what)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def in_process(tool: str, net: str, optimizer: str, what: str | None) -> int:
    command = [sys.executable, __file__, tool, net, optimizer, what or "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return int(done.stdout.splitlines()[-1])


class Resident:
    """Memory that this process holds."""

    def __init__(self) -> None:
        self._exact = STATUS.exists() and os.access(FORGET, os.W_OK)
        if self._exact:
            FORGET.write_text("5")  # the peak so far is that of the imports
        self._before = self._read("VmRSS")

    def grown(self) -> int:
        """Bytes at the peak above those at the start."""
        return self._read("VmHWM") - self._before

    def _read(self, field: str) -> int:
        if self._exact:
            (found,) = [row for row in STATUS.read_text().splitlines() if row.startswith(field)]
            return int(found.split()[1]) * 1024
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    name, net, optimizer, what = sys.argv[1:]
    tool = importlib.import_module("ours" if name == "cockpit" else name).TOOL
    problem = tool.prepared(Problem(net, "cpu", optimizer)) if what != "-" else Problem(net, "cpu", optimizer)
    train(tool, tool.prepared(Problem("tiny")), "economy")  # loads what is loaded at the first use, in either case
    gc.collect()
    resident = Resident()
    train(tool, problem, None if what == "-" else what)
    print(resident.grown())


if __name__ == "__main__":
    main()
