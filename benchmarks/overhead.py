"""What watching costs: time and memory of tracked steps against plain ones, measured side by side.

    python benchmarks/overhead.py                                about ten minutes on two CPU cores
    python benchmarks/overhead.py --all --out FILE               everything
    python benchmarks/overhead.py --device cuda --all --only nets --out FILE     one group, under three minutes
    python benchmarks/report.py FILE... --docs docs/speed.md     tables and pictures

Plain and tracked steps of the same model alternate in short blocks, so that a busy machine slows both alike; a ratio is
the median over the rounds. Runs are written to a temporary folder, as a user's are. Warm-up is not counted but written
down. On CUDA each number is measured twice: waiting for the device after each step, and only at the ends of a block.
"""

import time
from functools import partial

from measuring import Bench, intervals, nets, peaks, quantities, run
from nets import LARGE
from ours import TOOL
from results import Row
from timing import Clock, significant

STEPS, SHARE = 2000, 0.05


def budget(bench: Bench) -> None:
    """A watch that may take 5 % of the time, from the first step on."""
    for net in bench.nets:
        if bench.everything or net not in ("2c2d", "3c3d"):
            for preset in bench.presets if net in ("mlp", "tiny") else bench.presets[:1]:
                key = {"kind": "budget", "net": net, "optimizer": "SGD", "what": preset, "share": SHARE}
                bench.cell(partial(kept, bench, net, preset), **key)


def kept(bench: Bench, net: str, preset: str, steps: int = STEPS) -> Row:
    """Time of a whole run, opening and closing included, against the same number of plain steps around it."""
    plain, watched = bench.tool.pair(net, bench.device, "SGD")
    clock = Clock(bench.device)
    clock.block(plain.step, 3, "free")
    aside = clock.block(plain.step, steps // 4, "free")
    begin = time.perf_counter()
    with bench.tool.watch(watched, preset, None, budget=SHARE, grace=0) as session:
        opened = time.perf_counter() - begin
        each = clock.block(session.step, steps, "free")
        ended = time.perf_counter()
    total = time.perf_counter() - begin
    aside = (aside + clock.block(plain.step, steps // 4, "free")) / 2
    return {
        "steps": steps,
        "tracked": session.tracked,
        "complete": session.complete,
        "ratio": significant(each / aside),
        "total_ratio": significant(total / (steps * aside)),
        "plain_ms": significant(1e3 * aside),
        "open_ms": significant(1e3 * opened),
        "close_ms": significant(1e3 * (begin + total - ended)),
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
