"""What the run store costs: time of the training thread, time to load, bytes on disk, and what a kill leaves behind.

python benchmarks/store.py [--kills 100] [--backend sqlite|file]
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.store import StoredRun, create

ROOT = Path(__file__).resolve().parents[1]


def training(quantities: str, steps: int) -> list[list[Record]]:
    """Records of a logistic regression on random data, step by step."""
    import torch
    from torch import nn

    import cockpit

    torch.manual_seed(0)
    model, loss_fn = nn.Linear(784, 10), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with cockpit.watch(model, optimizer, loss_fn, quantities=quantities, every=1, run=False) as pit:
        for _ in range(steps):
            optimizer.zero_grad()
            loss_fn(model(torch.rand(128, 784)), torch.randint(10, (128,))).backward()
            optimizer.step()
    found: dict[int, list[Record]] = {}
    for record in pit.history:
        found.setdefault(record.step, []).append(record)
    return [found[step] for step in sorted(found)]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def appending(folder: Path) -> None:
    """Time of ``append`` while the writing thread is at work, a step every 5 ms."""
    steps, writer, found = training("economy", 20), create(folder), []
    for step in range(1500):
        records = [
            Record(step, old.name, old.kind, old.value, old.reason, old.details) for old in steps[step % len(steps)]
        ]
        time.sleep(0.005)
        begin = time.perf_counter()
        writer.append(records)
        writer.step = step
        found.append(1e6 * (time.perf_counter() - begin))
    writer.close()
    print(f"append, economy: median {median(found):.1f} us, p99 {quantiles(found, n=100)[98]:.1f} us")


def loading(folder: Path) -> None:
    """100,000 steps of 20 scalars."""
    names, writer, begin = [f"s{i}" for i in range(20)], create(folder), time.perf_counter()
    for step in range(100_000):
        writer.append([Record(step, name, Kind.SCALAR, step * 0.5) for name in names])
        if step % 5000 == 0:
            time.sleep(0.2)
    writer.close()
    wrote = time.perf_counter() - begin
    assert writer.lost == 0, writer.lost
    begin = time.perf_counter()
    run = StoredRun(folder)
    series = [run.scalar(name) for name in names]
    took = time.perf_counter() - begin
    assert all(len(one) == 100_000 for one in series)
    print(f"100,000 x 20 scalars: load {took:.2f} s, write {wrote:.1f} s, {size(folder) / 1e6:.1f} MB")
    begin = time.perf_counter()
    for _ in range(100):
        run.refresh()
    print(f"refresh with nothing new, 100,000 steps: {10 * (time.perf_counter() - begin):.3f} ms")


def bytes_on_disk(folder: Path) -> None:
    """300 steps of the full preset."""
    steps = training("full", 300)
    writer = create(folder)
    for records in steps:
        writer.append(records)
    writer.close()
    run = StoredRun(folder)
    assert sum(1 for _ in run.records()) == sum(map(len, steps))
    print(f"300 steps of logistic regression, full: {size(folder) / 1e6:.3f} MB")


def latency(folder: Path) -> None:
    """From append to the moment a reader has the point, and what a refresh with news takes."""
    writer, delays, reads = create(folder), [], []
    writer.append([Record(0, "Loss", Kind.SCALAR, 0.0)])
    time.sleep(0.5)
    run = StoredRun(folder)
    for step in range(1, 40):
        time.sleep(random.random() / 3)
        writer.append([Record(step, "Loss", Kind.SCALAR, float(step))])
        appended = time.perf_counter()
        while run.last_step != step:
            begin = time.perf_counter()
            new = run.refresh()
            run.scalar("Loss")
            if new:
                reads.append(time.perf_counter() - begin)
            time.sleep(0.002)
        delays.append(time.perf_counter() - appended)
    writer.close()
    print(f"point visible after: median {1e3 * median(delays):.0f} ms, worst {1e3 * max(delays):.0f} ms", end="; ")
    print(f"refresh with news {1e3 * median(reads):.2f} ms")


def kills(folder: Path, count: int) -> None:
    """Kill at random moments; the same folder is continued each time."""
    sys.path.append(str(ROOT))
    from tests.store.killing import check, kill

    gone, first = [], 0
    for attempt in range(1, count + 1):
        told = kill(folder, first, attempt, 0.7 * random.random())
        run = StoredRun(folder)
        gone.append(check(run, told, attempt))
        last = -1 if run.last_step is None else run.last_step
        first = random.randint(max(0, last - 200), last + 1) if attempt % 10 else 0
    print(f"{count} kills: every run opened, no record wrong; gone at most {1e3 * max(gone):.0f} ms of records")


def places(root: Path) -> Iterator[Path]:
    for name in ("append", "load", "bytes", "latency", "kills"):
        yield root / name


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--backend", choices=["sqlite", "file"], default="sqlite")
    parser.add_argument("--folder", help="where to write; a temporary folder by default")
    args = parser.parse_args()
    os.environ["COCKPIT_STORE"] = args.backend
    print(f"backend {args.backend}, python {sys.version.split()[0]}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(dir=args.folder) as root:
        work = [appending, loading, bytes_on_disk, latency]
        *some, last = places(Path(root))
        for step, place in zip(work, some, strict=True):
            step(place)
        kills(last, args.kills)


if __name__ == "__main__":
    main()
