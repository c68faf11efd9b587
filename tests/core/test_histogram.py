"""Histograms as values, histories and errors."""

from __future__ import annotations

import numpy as np

from cockpit.core.errors import unknown
from cockpit.core.histogram import Histogram
from cockpit.core.history import History
from cockpit.core.kinds import Kind
from cockpit.core.record import Record


def test_counts_are_exact_and_the_parts_add_up() -> None:
    parts = {"a": np.array([[0, 2**40], [3, 0]]), "b": np.array([[1, 1], [0, 0]])}
    histogram = Histogram((np.linspace(0, 1, 3), np.linspace(-1, 1, 3)), parts)
    assert histogram.counts.tolist() == [[1, 2**40 + 1], [3, 0]]
    assert histogram.counts.dtype == np.int64
    assert {name: part.tolist() for name, part in histogram.parts.items()} == {k: v.tolist() for k, v in parts.items()}
    assert histogram.as_dict()["hist"] == histogram.counts.tolist()


def test_several_at_once_are_those_built_one_by_one() -> None:
    edges, names = (np.linspace(0, 1, 4),), ("a", "b")
    rows = np.zeros((5, 6))
    rows[0, [0, 5]], rows[2, 3], rows[3], rows[4, 1] = (1, 255), 256, 2**33, 7
    for some in (rows, rows[:2], rows[1:2], rows[:, ::-1]):
        for row, made in zip(some, Histogram.several(edges, names, some), strict=True):
            expected = Histogram.from_rows(edges, names, row)
            assert made == expected
            assert [part.dtype for part in made.sparse()[1:]] == [part.dtype for part in expected.sparse()[1:]]


def test_a_later_record_replaces_an_earlier_one() -> None:
    history = History()
    history.append(Record(3, "Loss", Kind.SCALAR, 1.0))
    history.append(Record(1, "Loss", Kind.SCALAR, None, "no reason"))
    history.append(Record(3, "Loss", Kind.SCALAR, 2.0))
    assert history.output() == {1: {"Loss": None}, 3: {"Loss": 2.0}}
    assert history.reasons() == {"Loss": {"no reason": [1]}}
    assert [record.step for record in history.series("Loss")] == [1, 3]
    assert len(history) == 2


def test_an_unknown_name_comes_with_the_nearest_ones() -> None:
    assert "did you mean 'NormTest'" in str(unknown("quantity", "normtests", ["NormTest", "Alpha"]))
