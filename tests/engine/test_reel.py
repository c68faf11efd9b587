"""Rows of a reel arrive as they were filled, however many are fetched together."""

from __future__ import annotations

import pytest
import torch

from cockpit.engine import reel as module
from cockpit.engine.numbers import Harbour, Manifest, Numbers
from cockpit.engine.reel import ROWS, Reel

WIDTH = 5


def fresh() -> Reel:
    found = Reel(torch.zeros(WIDTH, dtype=torch.float64), Manifest({"a": (2,), "b": (3,)}), Harbour())
    found.write(torch.full((WIDTH,), -1.0, dtype=torch.float64))  # a rehearsal
    found.rewind()
    return found


def filled(reel: Reel, number: int) -> Numbers:
    numbers, row = Numbers(), reel.advance()
    reel.write(torch.arange(WIDTH, dtype=torch.float64) + 10 * number)
    reel.done()
    numbers.put_sent(row)
    return numbers


@pytest.mark.parametrize("every", [1, 7, ROWS, 3 * ROWS])
def test_each_row_holds_its_own_numbers(every: int) -> None:
    reel, waiting = fresh(), list[Numbers]()
    for number in range(3 * ROWS + 5):
        waiting.append(filled(reel, number))
        if number % every == 0:
            waiting[-1].ask()
    for number, numbers in enumerate(waiting):
        assert numbers.values("a") == [10 * number, 10 * number + 1]
        assert numbers["b"].tolist() == [10 * number + 2, 10 * number + 3, 10 * number + 4]


def test_nothing_is_fetched_before_it_is_asked_for() -> None:
    reel = fresh()
    one, two = filled(reel, 0), filled(reel, 1)
    assert not one.ready
    two.ask()
    assert one.ready
    assert two.ready
    assert not filled(reel, 2).ready


def test_what_is_filled_anew_was_fetched_before() -> None:
    reel = fresh()
    waiting = [filled(reel, number) for number in range(ROWS + 1)]
    assert all(numbers.ready for numbers in waiting[:-1])
    assert not waiting[-1].ready


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("first", [0, 1, ROWS - 1, ROWS])
def test_the_numbers_of_a_step_that_was_interrupted_are_not_those_of_the_next(first: int, written: bool) -> None:
    reel = fresh()
    waiting = [filled(reel, number) for number in range(first)]
    reel.advance()
    if written:
        reel.write(torch.full((WIDTH,), -1.0, dtype=torch.float64))
    waiting += [filled(reel, number) for number in range(first, first + ROWS + 3)]
    assert [numbers.values("a")[0] for numbers in waiting] == [10 * number for number in range(first + ROWS + 3)]


def test_large_rows_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3 * WIDTH * 8)
    reel = fresh()
    waiting = [filled(reel, number) for number in range(7)]
    assert [numbers.ready for numbers in waiting] == [True] * 6 + [False]  # three at a time
    assert [numbers.values("a")[0] for numbers in waiting] == [10 * number for number in range(7)]
