"""What a sweep of the quadratic costs, and whether one that is killed again and again ends with the same numbers.

python benchmarks/sweep.py [--kills 20] [--seed 0] [--on ray]

Killed are the sweep, a worker, and with Ray the head and the machine's daemon, at moments that are drawn.
"""

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

FIFTEEN = ["AMSBound", "AMSGrad", "AdaBelief", "AdaBound", "Adadelta", "Adagrad", "Adam", "LA(Momentum)", "LA(RAdam)"]
FIFTEEN += ["Momentum", "NAG", "NAdam", "RAdam", "RMSprop", "SGD"]
STUDY = f"""
problems = ["quadratic_deep"]
optimizers = {FIFTEEN}
budgets = ["oneshot", "small", "medium", "large"]
schedules = ["constant", "cosine", "cosine_wr", "ltr"]
"""


LONGEST = 20.0  # seconds until something is killed
RECONNECT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "30"}  # so that a sweep gives up its cluster after 5


def sweeping(folder: Path, on: str = "local") -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "cockpit", "bench", "sweep", "study.toml", "--out", "store", "--on", on]
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(STUDY)
    with (folder / "said").open("w") as said:
        return subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, env=os.environ | RECONNECT)


def below(pid: int) -> list[int]:
    """The processes that a process has begun, and theirs."""
    file = Path(f"/proc/{pid}/task/{pid}/children")
    children = [int(word) for word in file.read_text().split()] if file.exists() else []
    return [*children, *(deeper for child in children for deeper in below(child))]


def named(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def victims(pid: int, on: str) -> list[int]:
    """What may be killed besides the sweep itself."""
    words = ("gcs_server", "raylet/raylet", "ray::train") if on == "ray" else ("cockpit.bench.sweep.worker",)
    return [child for child in below(pid) if any(word in named(child) for word in words)]


def numbers(folder: Path) -> dict[str, tuple[Any, ...]]:
    db = sqlite3.connect(folder / "store/sweep.db")
    rows = db.execute("SELECT id, identity, state, metrics, curves, diverged, message FROM result").fetchall()
    db.close()
    return {row[0]: row[1:] for row in rows}


def whole(folder: Path) -> dict[str, tuple[Any, ...]]:
    begin = time.perf_counter()
    assert sweeping(folder).wait() == 0
    seconds, found = time.perf_counter() - begin, numbers(folder)
    size = (folder / "store/sweep.db").stat().st_size / len(found)
    print(f"{len(found):,} runs in {seconds:.1f} s, {size:,.0f} bytes a run")
    return found


def killed(folder: Path, kills: int, seed: int, on: str) -> dict[str, tuple[Any, ...]]:
    """A sweep, or what works for it, is killed so many times; after the last time it must end well by itself."""
    drawn = random.Random(seed)
    for number in range(kills):
        process = sweeping(folder, on)
        time.sleep(drawn.uniform(0, LONGEST))
        there = victims(process.pid, on) if drawn.random() < 0.6 else []
        target = drawn.choice(there) if there else process.pid
        said = named(target)[-60:] if there else "the sweep"
        with suppress(ProcessLookupError):
            os.kill(target, signal.SIGKILL)
        if there and on == "local":
            time.sleep(drawn.uniform(0, LONGEST / 4))
            process.kill()
        code = process.wait()
        ended = len(numbers(folder)) if (folder / "store/sweep.db").exists() else 0
        print(f"kill {number + 1} of {said.strip()}: exit code {code}, {ended:,} runs are there", flush=True)
        if code not in (0, -signal.SIGKILL):
            print("   ", (folder / "said").read_text().strip().splitlines()[-1:])
    process = sweeping(folder)
    time.sleep(drawn.uniform(4, 8))
    for worker in victims(process.pid, "local")[:1]:
        os.kill(worker, signal.SIGKILL)
    assert process.wait() == 0
    return numbers(folder)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--on", default="local", choices=["local", "ray"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        expected = whole(Path(place) / "whole")
        if given.kills:
            same = killed(Path(place) / "killed", given.kills, given.seed, given.on) == expected
            print("the same runs and numbers" if same else "NOT THE SAME")
            sys.exit(not same)


if __name__ == "__main__":
    main()
