"""Anything that was recorded has a panel."""

from __future__ import annotations

import numpy as np
import pytest

from cockpit.core.histogram import Histogram
from cockpit.core.kinds import Kind
from cockpit.core.record import Record
from cockpit.core.recorded import Recorded
from cockpit.panels import deck, panel
from cockpit.panels.by_kind import identity

FLAT = Histogram((np.linspace(0, 1, 5),), {"w": np.array([1, 2, 3, 4])})
SQUARE = Histogram((np.linspace(0, 1, 3), np.linspace(0, 1, 3)), {"w": np.array([[1, 2], [3, 4]])})


def only(kind: Kind, value: object) -> Recorded:
    return Recorded([Record(step, "Own", kind, value) for step in range(3)], "own")


def test_a_scalar() -> None:
    shown = {one.id: one for one in deck([only(Kind.SCALAR, 2.0), only(Kind.SCALAR, 3.0)])}
    assert shown["metrics"].empty is None  # the first one that is logged


@pytest.mark.parametrize(
    ("kind", "value", "rows"),
    [
        (Kind.PER_PARAMETER, {"a.w": 3.0, "b.w": 4.0}, {"lines": 3}),
        (Kind.HISTOGRAM, FLAT, {"bars": 4}),
        (Kind.HISTOGRAM, SQUARE, {"cells": 4}),
    ],
)
def test_a_panel_from_the_kind(kind: Kind, value: object, rows: dict[str, int]) -> None:
    shown = {one.id: one for one in deck([only(kind, value)])}["of-Own"]
    assert shown.group == "more"
    assert shown.empty is None
    assert {name: len(shown.datasets[name]) for name in rows} == rows


def test_totals_by_kind() -> None:
    rows = panel([only(Kind.PER_PARAMETER, {"a.w": 3.0, "b.w": 4.0})], "of-Own").datasets["lines"]
    assert {row["v"] for row in rows} == {5.0}


def test_samples_are_drawn_by_their_spread() -> None:
    rows = panel([only(Kind.PER_SAMPLE, np.array([4.0, 1.0, 2.0]))], "of-Own").datasets["lines"]
    assert {(row["k"], row["v"]) for row in rows} == {("largest", 4.0), ("median", 2.0), ("smallest", 1.0)}


def test_ids_are_safe_and_different() -> None:
    names = ["a b", "a/b", "a?b", "ä", "ö", "", "plain_1"]
    ids = [identity(name) for name in names]
    assert len(set(ids)) == len(names)
    assert all(letter.isascii() and (letter.isalnum() or letter in "-_") for one in ids for letter in one)
    assert identity("plain_1") == "of-plain_1"
