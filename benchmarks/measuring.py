"""The measurements, the same for this package and for the original."""

import argparse
import gc
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import memory
import torch
from nets import EVERY, NETS
from quiet import BUSY, Others
from results import Row, Sink, key_of, machine, read
from timing import Clock, Effort, Interval, compare, significant

PRESETS = ("economy", "business", "full")
INTERVALS = (4, 16, 64, 256)
MIB = 2**20


@dataclass
class Bench:
    """A tool, where it runs, and how long a measurement may take."""

    tool: Any
    device: str
    sink: Sink
    effort: Effort
    everything: bool
    longest: float  # seconds that one block may last; longer intervals are computed from shorter ones
    nets: tuple[str, ...]
    presets: tuple[str, ...]
    known: dict[tuple[Any, ...], Row] = field(default_factory=dict)  # what need not be measured again

    def time(
        self, net: str, what: str, every: int | None = 1, optimizer: str = "SGD", effort: Effort | None = None
    ) -> Row:
        """Compare a tracked step with a plain one."""

        def measure() -> Row:
            plain, watched = self.tool.pair(net, self.device, optimizer)

            def watch(schedule: Interval) -> Any:
                return self.tool.watch(watched, what, schedule)

            found = compare(plain.step, watch, every, Clock(self.device), effort or self.effort)
            return found.row() | ({"undefined": found.undefined} if found.undefined else {})

        return self.cell(measure, kind="time", net=net, optimizer=optimizer, what=what, every=every)

    def memory(self, net: str, whats: Iterable[str], optimizer: str = "SGD") -> None:
        """Compare the peaks of tracked steps with that of plain ones."""
        plain: list[int] = []

        def measure(what: str) -> Row:
            if not plain:
                plain.append(memory.peak(self.tool, net, self.device, optimizer, None))
            tracked = memory.peak(self.tool, net, self.device, optimizer, what)
            return {"plain_mib": significant(plain[0] / MIB), "tracked_mib": significant(tracked / MIB)}

        for what in whats:
            self.cell(partial(measure, what), kind="memory", net=net, optimizer=optimizer, what=what)

    def cell(self, measure: Callable[[], Row], **key: Any) -> Row:
        """Measure and write down; a failure is a result too."""
        known = self.known.get(key_of({"tool": self.tool.name, "device": self.device, **key}))
        if known is not None:
            return known
        begin, others = time.perf_counter(), Others()
        found = self._tried(measure)
        row = {**key, "batch": EVERY[key["net"]].batch, "others": others.share(), **found}
        if key["kind"] == "memory":  # nobody else disturbs that
            del row["others"]
        row["seconds"] = round(time.perf_counter() - begin, 1)
        self.sink(**row)
        return row

    def _tried(self, measure: Callable[[], Row]) -> Row:
        try:
            return measure()
        except Exception as error:
            return {"error": f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"}
        finally:
            gc.collect()
            if self.device == "cuda":
                torch.cuda.empty_cache()


def chosen(bench: Bench, subset: Iterable[str]) -> list[str]:
    """The nets of a group: all of them, or those that a short run can afford."""
    return [net for net in bench.nets if bench.everything or net in subset or net not in NETS]


def nets(bench: Bench) -> None:
    """Every net with every preset, each step tracked."""
    adam = [(net, "Adam") for net in bench.nets if net in ("mlp", "3c3d")]
    for net, optimizer in [*((net, "SGD") for net in bench.nets), *adam]:
        for preset in bench.presets:
            bench.time(net, preset, optimizer=optimizer)


def quantities(bench: Bench) -> None:
    """Each quantity alone."""
    short = replace(bench.effort, cell=bench.effort.cell / 2)
    for net in chosen(bench, ("mlp", "3c3d")):
        for name in bench.tool.quantities:
            bench.time(net, name, effort=short)


def intervals(bench: Bench) -> None:
    """Every preset at longer intervals, and a watch that has nothing to do."""
    for net in chosen(bench, ("mlp", "3c3d")):
        for preset in bench.presets:
            row: Row = {}
            for every in INTERVALS:
                lasts = every * row.get("plain_ms", 0) / 1e3
                row = derived(bench, row, every) if lasts > bench.longest else bench.time(net, preset, every)
        bench.time(net, bench.presets[0], None, effort=replace(bench.effort, rounds=3 * bench.effort.rounds))


def derived(bench: Bench, row: Row, every: int) -> Row:
    """The ratio at a longer interval: the same extra time, spread over more steps."""
    share = row["every"] / every
    found = {
        name: row[name]
        for name in row
        if name not in ("ratios", "free_ratios", "seconds", "others", "warmup_ms", "steps")
    }
    found |= {"every": every, "derived_from": row.get("derived_from", row["every"])}
    for prefix in ("", "free_"):
        if f"{prefix}ratio" in row:
            ratio = 1 + (row[f"{prefix}ratio"] - 1) * share
            found[f"{prefix}ratio"] = significant(ratio)
            found[f"{prefix}tracked_ms"] = significant(ratio * row[f"{prefix}plain_ms"])
    bench.sink(**found)
    return found


def peaks(bench: Bench) -> None:
    """Peak memory of every preset."""
    for net in chosen(bench, ("mlp", "3c3d")):
        bench.memory(net, bench.presets)


def run(tool: Any, groups: Mapping[str, Callable[[Bench], None]], description: str | None) -> None:
    """The command line: measure the groups that are asked for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--all", action="store_true", help="every net in every group, and every interval measured")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", nargs="+", choices=list(groups), default=list(groups), help="groups to measure")
    parser.add_argument("--nets", nargs="+", choices=list(EVERY), default=list(NETS))
    parser.add_argument("--presets", nargs="+", default=list(PRESETS))
    parser.add_argument(
        "--patience", type=float, default=0, help="seconds to go on for, each time, when other programs disturb"
    )
    parser.add_argument("--out", type=Path, help="a file of JSON lines to append to")
    parser.add_argument("--resume", action="store_true", help="leave out what the file has from a quiet machine")
    given = parser.parse_args()
    effort = Effort(block=0.1, rounds=3, cell=2.0) if given.quick else Effort()
    effort = replace(effort, patience=given.patience)
    longest = 60.0 if given.all and not given.quick else 3.0
    sink = Sink(given.out, tool=tool.name, device=given.device)
    sink.machine(machine(given.device))
    names = tuple(given.nets), tuple(given.presets)
    bench = Bench(tool, given.device, sink, effort, given.all, longest, *names)
    if given.resume and given.out and given.out.exists():
        known = [row for row in read([given.out]) if "error" not in row and (row.get("others") or 0) < BUSY]
        bench.known = {key_of(row): row for row in known}
    for name in given.only:
        begin = time.perf_counter()
        print(f"# {name}: {(groups[name].__doc__ or '').splitlines()[0]}", flush=True)
        groups[name](bench)
        print(f"# {name}: {time.perf_counter() - begin:.0f} s", flush=True)
