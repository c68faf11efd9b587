"""What a sweep says while it works."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from tests.results.sweeps.plans import PLAN, SGD, plan, row

from cockpit.bench.sweep import progress
from cockpit.bench.sweep.making import Context
from cockpit.bench.sweep.progress import shown, told
from cockpit.bench.sweep.work import Worker
from cockpit.results.sweeps.plan import Task
from cockpit.results.sweeps.runs import groups
from cockpit.results.sweeps.selection import chosen
from cockpit.results.sweeps.status import Count, count


def counted(ended: int = 0) -> Count:
    group = groups(PLAN)[0]
    rows = {spec.id: row(1.0) for spec in group.oneshot()[:ended]}
    return count(chosen(group, rows), rows)


def test_runs_that_go_alone_are_told_by_their_epochs() -> None:
    assert told(counted(), 2) == "0 of at most 44 runs"
    assert told(counted(), 2, [(3, 100)]) == "0 of at most 44 runs, 1 going after 3 of 100 epochs"
    assert told(counted(), 2, [(7, 50), (3, 100)]) == "0 of at most 44 runs, 2 going after 3 to 7 of 50 to 100 epochs"


def test_lines_become_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    out = io.StringIO()
    with shown(Console(file=out, width=200), 2) as at:
        for now in range(600):  # noqa: B007
            at(counted, [])
    # after 10, 30, 70 seconds, and then each minute
    assert len(out.getvalue().splitlines()) == 3 + (599 - 70) // 60


def test_a_worker_tells_epochs(tmp_path: Path) -> None:
    task = Task("digits", 1, "accuracy", 3, 128)
    spec = groups(plan(problems=(task,), optimizers=(SGD,), budgets=("oneshot",)))[0].oneshot()[0]
    heard: list[tuple[int, int]] = []
    worker = Worker(Context((), str(tmp_path)), lambda trained, epochs: heard.append((trained, epochs)))
    (entry,) = (entry for entries in worker.carry_out([spec]) for entry in entries)
    assert (entry.state, entry.message) == ("finished", None)
    assert heard[-3:] == [(1, 3), (2, 3), (3, 3)]
