from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from cockpit.results.sweeps.spaces import WrongSpace, axis


def test_scales() -> None:
    assert math.isclose(axis({"log": [1e-4, 1.0]}).at(0.5), 1e-2)
    assert math.isclose(axis({"log1m": [1e-4, 1.0]}).at(0.5), 1 - 1e-2)
    assert axis({"uniform": [-1, 3]}).at(0.25) == 0.0
    assert [axis({"int": [1, 20]}).at(u) for u in (0.0, 0.049, 0.051, 0.999999)] == [1, 1, 2, 20]
    assert [axis({"choice": ["a", "b", "c"]}).at(u) for u in (0, 0.34, 0.99)] == ["a", "b", "c"]
    assert axis(0.3).at(0.9) == 0.3
    assert not axis(0.3).tuned


@pytest.mark.parametrize("entry", [{"log": [1e-4, 1.0]}, {"log1m": [1e-4, 0.5]}, {"uniform": [0, 1]}, {"int": [1, 20]}])
def test_box_holds_what_it_was_made_of_and_nothing_outside(entry: dict[str, Any]) -> None:
    whole = axis(entry)
    values = [whole.at(u) for u in (0.3, 0.4, 0.7)]
    inside = whole.boxed(values)
    drawn = [inside.at(step / 1000) for step in range(1000)]
    assert min(values) - 1e-12 <= min(drawn) <= min(values) + 0.01
    assert max(values) - 0.01 <= max(drawn) <= max(values) + 1e-12


def test_box_of_a_choice_and_of_one_setting() -> None:
    assert axis({"choice": [1, 2, 3]}).boxed([3, 1, 3]).values == (1, 3)
    point = axis({"log": [1e-4, 1.0]}).boxed([0.02])
    assert math.isclose(point.at(0.0), 0.02)
    assert point.at(0.0) == point.at(0.999)


def test_grid() -> None:
    rates = axis({"log": [1e-5, 1e2], "steps": 36}).grid()
    assert len(rates) == 36
    assert [rates[0], rates[-1]] == [1e-5, 1e2]
    assert all(math.isclose(after / before, 10 ** (7 / 35)) for before, after in pairwise(rates))
    assert axis({"int": [2, 5]}).grid() == [2, 3, 4, 5]
    assert axis({"int": [0, 10], "steps": 3}).grid() == [0, 5, 10]
    assert axis({"uniform": [0, 1], "steps": 1}).grid() == [0.0]
    assert axis({"uniform": [0, 1]}).grid() == []
    assert axis(1.5).grid() == [1.5]


@pytest.mark.parametrize("entry", [{"choice": [1], "steps": 2}, {"log": [1, 2], "steps": 0}, {"log": [1, 2], "x": 0}])
def test_wrong_steps(entry: dict[str, Any]) -> None:
    with pytest.raises(WrongSpace):
        axis(entry)
