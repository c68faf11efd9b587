"""What a step costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.results.sweeps.test_formats import example

from cockpit.core.errors import CockpitError
from cockpit.results.sweeps.costs import read_costs
from cockpit.results.sweeps.formats import text


def test_lines_of_runtime(tmp_path: Path) -> None:
    file = tmp_path / "costs.jsonl"
    file.write_text('{"optimizer": "Adam", "ratio": 1.5}\n\n{"optimizer": "Adam", "ratio": 2.0}\n')
    assert read_costs(file) == {"SGD": 1.0, "Adam": 2.0}
    file.write_text('{"optimizer": "Adam"}')
    with pytest.raises(CockpitError, match=r"costs.jsonl:1 is no line of .*ratio"):
        read_costs(file)
    with pytest.raises(CockpitError, match="cannot be read"):
        read_costs(tmp_path / "nothing")


def test_speed_times_cost(tmp_path: Path) -> None:
    found = replace(example(tmp_path), costs={"Adam": 2.0})
    shown = text(found)
    assert "speed × cost" in shown
    held = next(line for line in shown.splitlines() if "Adam" in line and "small, constant" in line and "lr" in line)
    assert held.split()[-1] == "0.0"  # it is there from the beginning
    assert "speed × cost" not in text(example(tmp_path))
    assert {one["cost"] for one in found.plain()["winners"]} == {2.0, None}
