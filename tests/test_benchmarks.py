"""The benchmarks measure what they say, on a net of a few numbers, and the report puts it where it belongs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
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
    kinds = {(row["kind"], row["what"], row.get("every")) for row in rows}
    assert {
        ("time", "economy", 1),
        ("time", "economy", 256),
        ("time", "HessMaxEV", 1),
        ("time", "economy", None),
    } <= kinds
    (kept,) = [row for row in rows if row["kind"] == "budget"]
    assert 0 <= kept["complete"] <= kept["tracked"] < kept["steps"]
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
