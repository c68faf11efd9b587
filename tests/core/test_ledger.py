"""What a run's metadata tell about its cost."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest
from tests.core.training import Training

from cockpit.core.budget import Budget
from cockpit.core.ledger import Ledger, ledger


def told() -> dict[str, Any]:
    budget = Budget(0.05, 0.5)
    Training().run(budget, 3000)
    counts = {"tracked steps": 40, "Loss": 40, "HessMaxEV": 4}
    seconds = {"tracked steps": 2.0, "Loss": 0.4, "HessMaxEV": 0.8}
    return {"cost": {"seconds": seconds, "counts": counts, "tracked": 40, "budget": budget.report()}}


def test_everything_is_read() -> None:
    report = told()["cost"]["budget"]
    found = ledger(told())
    assert (found.allowed, found.grace, found.free) == (0.05, 0.5, report["free"])
    assert (found.used, found.spent, found.plain) == (report["used"], report["spent"], report["plain"])
    assert [tier.name for tier in found.tiers] == ["economy", "business", "full"]
    assert [tier.tracked for tier in found.tiers] == [tier["tracked"] for tier in report["tiers"]]
    assert found.overall == pytest.approx(report["spent"] / (report["spent"] + report["trained"]))


def test_a_part_costs_what_it_takes_each_time() -> None:
    found = ledger(told())
    assert (found.each("Loss"), found.each("HessMaxEV"), found.each("tracked steps")) == (0.01, 0.2, 0.05)
    assert found.each("Alpha") is None
    old = ledger({"cost": {"seconds": {"Loss": 1.0}, "tracked": 10}})  # a run that did not count its parts
    assert old.each("Loss") == 0.1


@pytest.mark.parametrize("cost", [None, 3, [], {"seconds": 3, "counts": [], "budget": "x"}, {"budget": {"tiers": "x"}}])
def test_nothing_is_known(cost: Any) -> None:
    assert ledger({"cost": cost}) == ledger({}) == Ledger()


def test_odd_entries_are_left_out() -> None:
    tiers = [3, {"name": "economy", "tracked": "many", "mean": nan}]
    budget = {"share": True, "used": nan, "spent": "1", "trained": None, "tiers": tiers}
    found = ledger({"cost": {"seconds": {"Loss": nan, "Time": 1.0}, "tracked": True, "budget": budget}})
    assert dict(found.parts) == {"Time": 1.0}
    assert (found.allowed, found.used, found.spent, found.overall) == (None, None, None, None)
    assert [(tier.tracked, tier.mean) for tier in found.tiers] == [(0, None)]
