"""What watching costs: time and memory of tracked steps against plain ones, measured side by side.

    python benchmarks/overhead.py                                about ten minutes on two CPU cores
    python benchmarks/overhead.py --all --out FILE               everything
    python benchmarks/overhead.py --device cuda --all --only nets --out FILE     one group, under three minutes
    python benchmarks/report.py FILE... --docs docs/speed.md     tables and pictures

Plain and tracked steps of the same model alternate in short blocks, so that a busy machine slows both alike; a ratio is
the median over the rounds. The budget is one long session, so a copy of the net takes the plain steps in between.
Runs are written to a temporary folder, as a user's are. Warm-up is not counted but written down. On CUDA each number
is measured twice: waiting for the device after each step, and only at the ends of a block.
"""

import time
from functools import partial

import torch
from measuring import Bench, intervals, nets, peaks, quantities, run
from nets import LARGE
from ours import TOOL
from results import Row
from timing import Clock, significant
from turns import Stopwatch, advance

STEPS, SHARE = 2000, 0.05
BLOCK = {"cpu": 50, "cuda": 400}  # steps of one copy in a row; on a GPU pauses cannot be hidden, so they must be rare
LONGEST, FEWEST = 240.0, 300  # seconds of a run, both copies; steps that a slow net takes all the same


def budget(bench: Bench) -> None:
    """A watch that may take 5% of the time, from the first step on."""
    for net in bench.nets:
        if bench.everything or net not in ("2c2d", "3c3d"):
            for preset in bench.presets if net in ("logreg", "mlp", "tiny") else bench.presets[:1]:
                key = {"kind": "budget", "net": net, "optimizer": "SGD", "what": preset, "share": SHARE}
                bench.cell(partial(kept, bench, net, preset), **key)


def kept(bench: Bench, net: str, preset: str, steps: int = STEPS) -> Row:
    """The session in the middle of as many as there is time for, by what its steps took."""
    begin, found = time.perf_counter(), list[Row]()
    while not found or (len(found) < bench.effort.rounds and time.perf_counter() - begin < bench.effort.cell):
        found.append(session(bench, net, preset, steps))
    found.sort(key=lambda row: float(row["ratio"]))
    return {**found[len(found) // 2], "ratios": [row["ratio"] for row in found]}


def session(bench: Bench, net: str, preset: str, steps: int) -> Row:
    """One watch from its opening to its end, and as many plain steps of a copy of the net, in turn."""
    (plain, _), (_, watched) = (bench.tool.pair(net, bench.device, "SGD") for _ in range(2))
    clock, stopwatch, backward = Clock(bench.device), Stopwatch(), torch.autograd.backward
    warm = min(clock.block(one.step, 3, "free") for one in (plain, watched, plain))
    affordable = max(FEWEST, int(LONGEST / 2 / warm))
    length = {"steps": affordable} if affordable < steps else {}  # a short run must say so: others may borrow more
    steps, block = min(steps, affordable), BLOCK[bench.device]
    begin = time.perf_counter()
    with bench.tool.watch(watched, preset, None, budget=SHARE, grace=0, **length) as under_watch:
        under_watch.read(stopwatch)
        opened = time.perf_counter() - begin
        armed = lambda: torch.autograd.backward is not backward  # noqa: E731
        found = advance(plain.step, under_watch.step, steps, block, clock, stopwatch, armed)
        ended = time.perf_counter()
    closed = time.perf_counter() - ended
    return {
        **found.row(),
        "tracked": under_watch.tracked,
        "complete": under_watch.complete,
        "tiers": under_watch.tiers,
        "used": under_watch.used,
        "total_ratio": significant((opened + found.seconds + closed) / (found.steps * found.once)),
        "open_ms": significant(1e3 * opened),
        "close_ms": significant(1e3 * closed),
    }


def large(bench: Bench) -> None:
    """A residual net with batch normalisation and a transformer, of full size on CUDA; time and peak memory."""
    usual = [net for net in LARGE if net.endswith("small") != (bench.device == "cuda")]
    for net in [net for net in bench.nets if net in LARGE] or usual:
        for preset in bench.presets:
            bench.time(net, preset)
        bench.time(net, bench.presets[0], 16)
        bench.memory(net, bench.presets)


GROUPS = {
    "nets": nets,
    "quantities": quantities,
    "intervals": intervals,
    "memory": peaks,
    "budget": budget,
    "large": large,
}

if __name__ == "__main__":
    run(TOOL, GROUPS, __doc__)
