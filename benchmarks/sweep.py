"""What a sweep of the quadratic costs, and whether one that is killed again and again ends with the same numbers.

python benchmarks/sweep.py [--kills 20] [--seed 0]
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


def sweeping(folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "cockpit", "bench", "sweep", "study.toml", "--out", "store"]
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(STUDY)
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


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


def killed(folder: Path, kills: int, seed: int) -> dict[str, tuple[Any, ...]]:
    """A sweep or one of its workers is killed so many times; the moments are drawn."""
    drawn = random.Random(seed)
    for number in range(kills):
        process = sweeping(folder)
        time.sleep(drawn.uniform(0, 12))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = children.read_text().split() if children.exists() else []
        if workers and drawn.random() < 0.5:
            os.kill(int(drawn.choice(workers)), signal.SIGKILL)
            time.sleep(drawn.uniform(0, 3))
        process.kill()
        process.wait()
        there = len(numbers(folder)) if (folder / "store/sweep.db").exists() else 0
        print(f"kill {number + 1}: {there:,} runs are there", flush=True)
    assert sweeping(folder).wait() == 0
    return numbers(folder)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        expected = whole(Path(place) / "whole")
        if given.kills:
            same = killed(Path(place) / "killed", given.kills, given.seed) == expected
            print("the same runs and numbers" if same else "NOT THE SAME")
            sys.exit(not same)


if __name__ == "__main__":
    main()
