"""What ``explain`` says about the cost."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.core.training import Training
from tests.small import draw, watched

from cockpit.core.budget import Budget
from cockpit.core.ledger import ledger
from cockpit.core.meter import Meter
from cockpit.core.schedule import linear
from cockpit.store import StoredRun
from cockpit.tracking.explain import _cost, cost


def tracker(schedule: Any, **more: Any) -> Any:
    """As much of one as the cost needs."""
    seconds = {"tracked steps": 1.2, "Loss": 0.1, "curvature": 0.8}
    counts = {"tracked steps": 12, "Loss": 12, "curvature": 1}
    return SimpleNamespace(schedule=schedule, coverage=SimpleNamespace(seconds=seconds, counts=counts), **more)


def test_each_part_by_what_it_takes_each_time() -> None:
    said = _cost(tracker(linear(1)))
    assert said == [
        "Cockpit takes 100.00 ms of a tracked step; of that, each time, curvature 800.00 ms, Loss 8.33 ms.",
    ]


def test_the_budget_and_what_it_bought() -> None:
    budget = Budget(0.05, 0.5)
    training = Training().run(budget, 3000)
    said = "\n".join(_cost(tracker(budget)))
    assert re.search(r"A plain step takes (9\.\d\d|10\.\d\d) ms", said)
    for name, tier in (("economy", 1), ("business", 2), ("full", 3)):
        assert f"{name} was tracked at {len(training.times(tier))} steps" in said
    assert re.search(
        r"up to full adds [34]\d\d\.\d\d ms to a step, the first time \d+\.\d\d ms; .*, now every \d+ steps", said
    )
    assert re.search(r"Budget: 5% of the training time, after 0.5 s that are free. So far \d\.\d% used: ", said)
    assert re.search(r"used: [\d.]+ s spent, [\d.]+ s of them free\.$", said)


def test_without_grace_nothing_is_said_of_it() -> None:
    budget = Budget(0.05, 0.0, tiers=(1,))
    Training(costs={1: 2.0}).run(budget, 100)
    (said,) = [line for line in _cost(tracker(budget)) if line.startswith("Budget")]
    assert "free" not in said


def test_until_a_plain_step_is_seen_it_is_an_estimate() -> None:
    budget = Budget(0.05, 10.0)
    for step in range(3):
        budget.book(step, 1.0, budget.due(step), own=0.1)
    assert "(estimated until a plain step is seen)" in _cost(tracker(budget))[-1]


def test_a_schedule_may_be_metered_too() -> None:
    meter = Meter()
    for step in range(100):
        meter.book(step, 0.03 if step % 10 == 0 else 0.01, 1 if step % 10 == 0 else 0)
    said = _cost(tracker(linear(10), meter=meter))
    assert "Tracking up to economy adds 20.00 ms to a step, the first time 20.00 ms" in said[1]
    assert not any(line.startswith("Budget") for line in said)


def test_nothing_tracked() -> None:
    nothing: Any = SimpleNamespace(schedule=None, coverage=SimpleNamespace(seconds={}, counts={}))
    assert _cost(nothing) == []
    assert cost(nothing) == {"seconds": {}, "counts": {}, "tracked": 0}


def test_the_run_keeps_what_was_said(tmp_path: Path) -> None:
    pit = watched(draw(*[8] * 30), run=tmp_path / "run", every=None, budget=0.05, grace=100.0)
    found = ledger(StoredRun(tmp_path / "run").metadata)
    assert found.allowed == 0.05
    assert found.counts["tracked steps"] == 30
    assert found.parts["GradNorm"] > 0
    assert found.spent is not None
    assert 0 < found.spent == found.free
    assert re.search(r"Budget: 5% of the training time, after 100 s that are free", pit.explain())
