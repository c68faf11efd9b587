"""How fast the live page is: start of the server, opening, a new point; one run and many overlaid.

python benchmarks/page.py [--runs 20] [--steps 10000]

Needs Chromium and playwright.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests.dashboard.browser knows how to find Chromium

from tests.dashboard.browser import Tab, browser

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.dashboard.server import start
from cockpit.store import Writer, create

SCALARS = ("Loss", "Time", "Alpha", "NormTest", "InnerTest", "OrthoTest", "TICDiag", "HessMaxEV", "CABS", "MeanGSNR")
CONTEXT = ("EarlyStopping", "learning_rate", "batch_size", "tracking_seconds", "accuracy")
TOTALS = ("Distance", "UpdateSize", "GradNorm", "HessTrace")
PARAMETERS = [f"{layer}.{kind}" for layer in range(8) for kind in ("weight", "bias")]
EDGES = {"GradHist1d": (np.linspace(-2, 2, 101),), "GradHist2d": (np.linspace(-1, 1, 41), np.linspace(-2, 2, 51))}
POINTS = 8


def frame(step: int, draw: np.random.Generator) -> list[Record]:
    """Everything that a tracked step of the full preset records, with random numbers."""
    records = [Record(step, name, Kind.SCALAR, float(draw.random()) + 0.1) for name in SCALARS + CONTEXT]
    for name in TOTALS:
        values = dict(zip(PARAMETERS, draw.random(len(PARAMETERS)).tolist(), strict=True))
        records.append(Record(step, name, Kind.PER_PARAMETER, values))
    for name, edges in EDGES.items():
        counts = np.zeros([len(axis) - 1 for axis in edges], dtype=np.int64)
        counts[tuple(slice(18, 22) for _ in edges)] = draw.integers(1, 1000)
        records.append(Record(step, name, Kind.HISTOGRAM, Histogram(edges, dict.fromkeys(PARAMETERS[:4], counts))))
    return records


def write(folder: Path, steps: int, seed: int) -> Writer:
    """A run of many steps, still open."""
    draw, writer = np.random.default_rng(seed), create(folder, {"git": None, "steps": 2 * steps})
    for step in range(steps):
        writer.append(frame(step, draw))
        writer.step = step
        if step % 500 == 0:
            time.sleep(0.2)  # the queue is bounded, and this is no training
    return writer


def starting(folder: Path) -> float:
    """Seconds from the command to the first page."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "cockpit", "ui", str(folder), "--no-browser", "--port", "6399"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        while True:
            try:
                urllib.request.urlopen("http://127.0.0.1:6399/").read()
                return time.perf_counter() - begin
            except OSError:
                time.sleep(0.005)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def opened(window: Any, url: str, runs: list[str]) -> Iterator[tuple[Tab, float]]:
    """The deck of some runs, and the seconds until all of it is drawn."""
    tab = Tab(window, url)
    begin = time.perf_counter()
    tab.open("&".join(f"run={run}" for run in runs))
    tab.drawn(count=16)
    yield tab, time.perf_counter() - begin
    tab.close()


def latencies(tab: Tab, writer: Writer, first: int) -> list[float]:
    """Seconds from a new record to its point on the loss panel."""
    draw, found = np.random.default_rng(0), []
    last = "Math.max(...[...document.querySelectorAll('[data-panel=loss] .plot')].map((plot) => +plot.dataset.last))"
    for step in range(first, first + POINTS):
        time.sleep(1)
        begin = time.perf_counter()
        writer.append(frame(step, draw))
        tab.until(f"{last} >= {step}")
        found.append(time.perf_counter() - begin)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=20)
    options.add_argument("--steps", type=int, default=10_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as made, browser() as window:
        root = Path(made)
        names = [f"run{number}" for number in range(given.runs)]
        writers = [write(root / name, given.steps, seed) for seed, name in enumerate(names)]
        print(f"server, to the first page: {median(starting(root) for _ in range(3)):.2f} s")
        with start(root) as server:
            first = given.steps
            for chosen in (names[:1], names):
                for state in ("cold", "warm"):
                    with opened(window, server.url, chosen) as (tab, seconds):
                        print(f"{len(chosen)} run(s) x {given.steps} steps, {state}: opens in {seconds:.2f} s")
                        if state == "warm":
                            found = latencies(tab, writers[0], first)
                            print(f"  a new point: median {median(found):.2f} s, worst {max(found):.2f} s")
                            first += POINTS
        for writer in writers:
            writer.close()


if __name__ == "__main__":
    main()
