"""The benchmarks measure what they say, on a net of a few numbers, and the report puts it where it belongs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.running import ROOT, python

PLAIN, DUE, NEXT = 1.0, 9.0, 2.0  # seconds of a step, more when it is tracked, more when the step before was


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a file of the benchmarks as its scripts do, and forget it afterwards."""
    folder = ROOT / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    yield import_module
    for name in [path.stem for path in folder.glob("*.py")]:
        sys.modules.pop(name, None)


class Session:
    """Training whose steps take as long as is said above."""

    def __init__(self, clock: Any, schedule: Callable[[int], bool]) -> None:
        self.clock, self.schedule, self.number, self.undefined = clock, schedule, 0, {}

    def step(self) -> None:
        due = (self.schedule(self.number - back) for back in (0, 1))
        self.clock.now += PLAIN + sum(cost for cost, is_due in zip((DUE, NEXT), due, strict=True) if is_due)
        self.number += 1


def compared(
    module: Callable[[str], Any],
    every: int | None,
    slower: Callable[[int], float] = lambda _: 1.0,
    patience: float = 0.0,
) -> Any:
    """A comparison on a clock that only steps move; in round n everything under watch is ``slower(n)`` times slower."""
    timing = module("timing")

    class Clock(timing.Clock):
        now, sessions = 0.0, 0

        def block(self, step: Callable[[], None], count: int, mode: str) -> float:
            begin = self.now
            for _ in range(count):
                step()
            watched = getattr(step, "__self__", None) is not None
            return (self.now - begin) / count * (slower(self.sessions) if watched else 1)

    clock = Clock("cpu")

    def plain() -> None:
        clock.now += PLAIN

    @contextmanager
    def watched(schedule: Any) -> Iterator[Session]:
        clock.sessions += 1
        yield Session(clock, schedule)

    return timing.compare(plain, watched, every, clock, timing.Effort(cell=1e9, patience=patience))


@pytest.mark.parametrize(
    ("every", "ratio"), [(1, 12.0), (4, 3.75), (16, 1 + 11 / 16), (256, 1 + 11 / 256), (None, 1.0)]
)
def test_a_ratio_is_that_of_whole_intervals(
    module: Callable[[str], Any], every: int | None, ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module("quiet").Others, "share", lambda self: 0.0)
    found = compared(module, every)
    row = found.row()
    assert row["ratio"] == pytest.approx(ratio, rel=1e-3)
    assert (row["plain_ms"], row["tracked_ms"]) == (1000, pytest.approx(1000 * ratio, rel=1e-3))
    assert len(row["ratios"]) == 5
    assert found.warmup[0] == PLAIN + DUE


def test_disturbed_rounds_are_left_out(module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.5, 0.0, 0.7, 0.01, 0.02, 0.6, 0.03, 0.04])
    timing = module("timing")
    monkeypatch.setattr(timing.Others, "share", lambda self: next(shares))
    monkeypatch.setattr(timing, "wait", lambda patience: None)
    row = compared(module, 1, slower=lambda number: 3.0 if number in (1, 3, 6) else 1.0, patience=1e9).row()
    assert row["ratios"] == [12.0] * 5
    assert row["others"] == 0.04


@pytest.mark.parametrize("every", [4, 7, 256])
def test_an_interval_tells_when_it_is_due_again(module: Callable[[str], Any], every: int) -> None:
    schedule = module("timing").Interval(every)
    schedule.warm = 9
    for step in [step for step in range(9, 600) if not schedule(step)]:
        assert step + schedule.until(step) == next(later for later in range(step, 999) if schedule(later))
    assert module("timing").Interval(None).until(9) > 1e6


def test_long_intervals_begin_with_short_ones(module: Callable[[str], Any]) -> None:
    schedule = module("timing").Interval(16)
    more = schedule.begin(8)
    assert [step for step in range(8, 8 + more) if schedule(step)] == [9, 12, 15]
    assert [step for step in range(8 + more, 70) if schedule(step)] == [32, 48, 64]
    assert module("timing").Interval(1).begin(8) == module("timing").Interval(None).begin(8) == 0


class Machine:
    """Time passes when told, and ever more slowly or fast: a plain step takes ``speed`` of the time so far."""

    def __init__(self, speed: Callable[[float], float]) -> None:
        self.speed, self.now = speed, 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, plain: float) -> None:
        self.now += plain * self.speed(self.now)

    def block(self, step: Callable[[], None], count: int, mode: str) -> float:
        begin = self.now
        for _ in range(count):
            step()
        return (self.now - begin) / count


class Copies:
    """Two copies in turn: of the watched one every tenth step is tracked, and costs as much as half a plain one."""

    def __init__(self, module: Callable[[str], Any], speed: Callable[[float], float]) -> None:
        self.machine = Machine(speed)
        self.stopwatch = module("turns").Stopwatch(self.machine)
        self.steps = {"plain": 0, "watched": 0}
        self.disturbed, self.seen, self._last = 0, list[float](), 0.0

    def armed(self) -> bool:
        return self.steps["watched"] % 10 == 0

    def plain(self) -> None:
        self.steps["plain"] += 1
        self.disturbed += self.armed()
        self.machine.work(1.0)

    def watched(self) -> None:
        before = self.stopwatch()
        self.machine.work(1.5 if self.armed() else 1.0)
        self.steps["watched"] += 1
        self.seen.append(self.stopwatch() - before + (before - self._last))
        self._last = self.stopwatch()


@pytest.mark.parametrize("speed", [lambda now: 1.0, lambda now: 1 + now / 5000, lambda now: 2.0 if now > 700 else 1.0])
def test_two_copies_in_turn_bear_a_machine_that_changes(
    module: Callable[[str], Any], speed: Callable[[float], float]
) -> None:
    copies = Copies(module, speed)
    found = module("turns").advance(
        copies.plain, copies.watched, 1000, 25, copies.machine, copies.stopwatch, copies.armed
    )
    assert copies.steps["watched"] == found.steps == 1001, "the thousandth is followed by one that is tracked"
    assert found.ratio == pytest.approx(1.05, abs=0.02)
    assert found.typical == pytest.approx(1.05, abs=0.02)
    assert found.row()["plain_ms"] == pytest.approx(
        1e3 * sum(b.seconds for b in found.plain) / copies.steps["plain"], rel=1e-3
    )
    assert not copies.disturbed, "a backward pass of the other copy would have been seen"


def test_for_the_budget_no_time_passes_while_the_other_copy_trains(module: Callable[[str], Any]) -> None:
    copies = Copies(module, lambda now: 1.0)
    found = module("turns").advance(copies.plain, copies.watched, 300, 25, copies.machine, copies.stopwatch)
    assert set(copies.seen) == {1.0, 1.5}
    assert copies.stopwatch() == found.seconds == pytest.approx(315.0)
    assert copies.machine.now > 600


def test_chance_is_what_differs_from_block_to_block(module: Callable[[str], Any]) -> None:
    turns = module("turns")
    same = turns.Turns([turns.Block(10, 10.0)] * 4, [turns.Block(10, 12.0)] * 4)
    assert (same.ratio, same.typical, same.chance) == (pytest.approx(1.2), pytest.approx(1.2), pytest.approx(0.0))
    one = turns.Turns(same.plain, [*same.watched[:3], turns.Block(10, 20.0)])
    assert (one.ratio, one.typical) == (pytest.approx(1.4), pytest.approx(1.2))
    assert one.chance == pytest.approx(0.2), "as far as one block in four has moved it"


def test_complete_is_a_step_with_all_that_was_asked_for(
    module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = module("ours")
    tiers = [{"name": "economy", "tracked": 3}, {"name": "business", "tracked": 1}]
    cost = {"cost": {"budget": {"used": 0.04, "tiers": tiers}}}
    monkeypatch.setattr(ours, "StoredRun", lambda place: SimpleNamespace(metadata=cost))
    output = {5: {"Loss": 1.0}, 9: {"Loss": 1.0, "HessTrace": None}, 12: {"Loss": 1.0}, 13: {"mine": 2.0}}
    pit = SimpleNamespace(
        get_output=lambda: output,
        history=SimpleNamespace(reasons=lambda: {"HessTrace": {"why": 1}}),
        _tracker=SimpleNamespace(quantities=[SimpleNamespace(name=name) for name in ("Loss", "HessTrace")]),
    )
    found = ours.Watched(None)
    found.closed(pit, tmp_path)
    assert (found.tracked, found.complete, found.undefined) == (3, 1, {"HessTrace": "why"})
    assert (found.tiers, found.used) == ({"economy": 3, "business": 1}, 0.04)


def test_the_table_of_the_budget_reads_old_rows_and_new_ones(module: Callable[[str], Any]) -> None:
    tables, results = module("tables"), module("results")
    old = {"kind": "budget", "tool": "cockpit", "net": "mlp", "optimizer": "SGD", "what": "economy", "ratio": 1.04}
    old |= {"total_ratio": 1.05, "steps": 2000, "tracked": 27, "complete": 27, "open_ms": 18.2, "close_ms": 4.0}
    lines = tables.budget(tables.Results([old])).splitlines()
    assert lines[0] == "|  |  | time of the steps | of the whole run | steps tracked | opening + closing |"
    assert lines[-1] == "| MLP | economy | 1.040 | 1.050 | 27 of 2,000, 27 with everything | 18 + 4 ms |"
    new = {**old, "what": "business", "complete": 3, "chance": 0.004, "block_ratio": 1.011, "cpu_ratio": 1.039}
    new |= {"tiers": {"economy": 27, "business": 3}}
    line = tables.budget(tables.Results([old, new])).splitlines()[-1]
    assert "| 1.040 ± 0.004 | 1.011 | 1.050 | 27 of 2,000, 3 with everything (economy 27, business 3) |" in line
    assert results.line(old).endswith("27 with everything, time x 1.040")
    assert results.line(new).endswith("time x 1.040 ± 0.004, block by block x 1.011, cores x 1.039")


def test_sizes_of_the_nets(module: Callable[[str], Any]) -> None:
    nets = module("nets").EVERY
    sizes = {"logreg": 7_850, "mlp": 1_336_610, "2c2d": 3_274_634, "3c3d": 895_210}  # Appendix C of the paper
    sizes |= {"resnet50": 25_557_032, "gpt2": 124_439_808}  # as published
    with torch.device("meta"):
        found = {name: sum(p.numel() for p in nets[name].make().parameters()) for name in sizes}
    assert found == sizes


@pytest.mark.parametrize("name", ["tiny", "resnet-small", "gpt-small"])
def test_a_problem_learns(module: Callable[[str], Any], name: str) -> None:
    problem = module("nets").Problem(name, optimizer="Adam")
    problem.batches = iter([next(problem.batches)] * 20)
    first = problem.loss().item()
    for _ in range(18):
        problem.step()
    assert problem.loss().item() < first


def test_every_group_measures(module: Callable[[str], Any], tmp_path: Path) -> None:
    timing, overhead, results = module("timing"), module("overhead"), module("results")
    file = tmp_path / "found.jsonl"
    effort = timing.Effort(block=0.005, rounds=1, cell=0.01)
    sink = results.Sink(file, tool="cockpit", device="cpu")
    sink.machine(results.machine("cpu"))
    tool = module("ours").Ours()
    tool.quantities = ("GradNorm", "HessMaxEV")
    bench = module("measuring").Bench(tool, "cpu", sink, effort, True, 60.0, ("tiny",), ("economy",))
    for group in ("nets", "quantities", "intervals", "budget"):
        overhead.GROUPS[group](bench)
    rows = results.read([file])
    assert not [row for row in rows if "error" in row]
    assert all(row["ratio"] > 0 and row["machine"]["torch"] == torch.__version__ for row in rows)
    counted = [row for row in rows if row["kind"] == "histogram"]
    assert [(row["what"], row["share"]) for row in counted] == list(product(("formed", "linear"), overhead.SHARES))
    text = module("tables").histograms(module("tables").Results(counted))
    assert text.count("\n") == 1 + len(overhead.SHARES)
    assert module("pictures").histograms(module("tables").Results(counted)).startswith(b"\x89PNG")
    kinds = {(row["kind"], row["what"], row.get("every")) for row in rows}
    assert {
        ("time", "economy", 1),
        ("time", "economy", 256),
        ("time", "HessMaxEV", 1),
        ("time", "economy", None),
    } <= kinds
    (kept,) = [row for row in rows if row["kind"] == "budget"]
    assert 0 <= kept["complete"] <= kept["tracked"] < kept["steps"]
    assert overhead.STEPS <= kept["steps"] < overhead.STEPS + 10
    assert kept["tiers"].get("economy", 0) == kept["tracked"]
    assert kept["ratio"] in kept["ratios"]
    assert kept["total_ratio"] > kept["ratio"], "opening and closing take time"
    assert not [row for row in rows if row.get("undefined")]


def test_the_program_and_the_report(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    begin = ["--nets", "tiny", "--presets", "economy", "--quick", "--only"]
    file = tmp_path / "found.jsonl"
    script = ROOT / "benchmarks" / "overhead.py"
    done = python(script, *begin, "nets", "--out", file, cwd=tmp_path, TMPDIR=str(scratch))
    assert done.returncode == 0, done.stderr
    assert not list(scratch.glob("tmp*")), "a run was left behind"
    machine, time = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    assert machine["threads"] == 1
    assert machine["command"] == "python benchmarks/overhead.py --nets tiny --presets economy --quick --only nets"
    assert time["ratio"] > 1

    page = tmp_path / "speed.md"
    page.write_text("before\n<!-- cpu:begin -->\nold\n<!-- cpu:end -->\nafter\n", encoding="utf-8")
    done = python(ROOT / "benchmarks" / "report.py", file, "--docs", page, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- cpu:begin -->")
    assert text.endswith("<!-- cpu:end -->\nafter\n")
    assert "old" not in text
    assert "| tiny |" in text
    assert f"Repeat: `{machine['command']}`" in text
    assert (tmp_path / "speed-cpu-nets.png").read_bytes().startswith(b"\x89PNG")


def test_memory_of_a_process_of_its_own(module: Callable[[str], Any]) -> None:
    grown = module("memory").in_process("cockpit", "tiny", "SGD", "economy")
    assert 0 <= grown < 100 * 2**20


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads /proc")
def test_a_peak_counts_what_is_gone_again(module: Callable[[str], Any]) -> None:
    resident = module("memory").Resident()
    bytearray(b"1") * (64 * 2**20)
    assert 60 * 2**20 < resident.grown() < 100 * 2**20


def test_the_last_of_equal_results_counts(module: Callable[[str], Any], tmp_path: Path) -> None:
    file = tmp_path / "found.jsonl"
    key = {"kind": "time", "tool": "cockpit", "device": "cpu", "net": "mlp", "optimizer": "SGD", "what": "economy"}
    lines = [{"kind": "machine", "cpu": "a"}, {**key, "every": 1, "ratio": 2}, {**key, "every": 4, "ratio": 3}]
    lines += [{"kind": "machine", "cpu": "b"}, {**key, "every": 1, "ratio": 5}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = {row["every"]: (row["ratio"], row["machine"]["cpu"]) for row in module("results").read([file])}
    assert found == {1: (5, "b"), 4: (3, "a")}


def test_a_longer_interval_spreads_the_same_time(module: Callable[[str], Any]) -> None:
    rows: list[Any] = []
    bench = type("Bench", (), {"sink": staticmethod(lambda **row: rows.append(row))})
    row = {"net": "mlp", "what": "full", "every": 16, "ratio": 2.0, "ratios": [2.0], "plain_ms": 10.0}
    derived = module("measuring").derived
    found = derived(bench, derived(bench, row, 64), 256)
    assert [(row["every"], row["ratio"]) for row in rows] == [(64, 1.25), (256, pytest.approx(1.0625, rel=1e-3))]
    assert found["derived_from"] == 16
    assert "ratios" not in found


def test_tables_show_the_original_in_brackets(module: Callable[[str], Any]) -> None:
    tables = module("tables")
    key = {"kind": "time", "device": "cpu", "net": "mlp", "optimizer": "SGD", "what": "economy", "every": 1}
    row = {**key, "plain_ms": 2.0, "warmup_ms": [30.0]}
    rows = [{**row, "tool": "cockpit", "ratio": 1.234}, {**row, "tool": "original", "ratio": 331.2}]
    rows += [{**key, "tool": "cockpit", "what": "full", "error": "OutOfMemoryError: no"}]
    text = tables.presets(tables.Results(rows), "")
    assert text.splitlines()[-1] == "| MLP | 2 ms | 1.23 (331) | out of memory | 30 ms |"
    assert "business" not in text, "a column without numbers"


def test_a_page_without_marks_is_refused(module: Callable[[str], Any]) -> None:
    with pytest.raises(SystemExit, match="gpu:begin"):
        module("report").insert("<!-- cpu:begin --><!-- cpu:end -->", "cuda", "text")


def test_the_page_can_be_brought_up_to_date(module: Callable[[str], Any]) -> None:
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    for device in ("cpu", "cuda"):
        assert "new text" in module("report").insert(page, device, "new text")
