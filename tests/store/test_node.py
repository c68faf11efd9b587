from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.store.contract import same

from cockpit.core.histogram import Histogram
from cockpit.store import node

numbers = st.floats() | st.integers() | st.booleans()
arrays = hnp.arrays(
    st.sampled_from(["<f8", "<f4", "<f2", "<i8", "<u2", "|b1", "<c16"]), hnp.array_shapes(min_dims=1, min_side=0)
)
plain = numbers | st.text() | st.none()
values = st.recursive(
    plain | arrays | st.lists(plain, max_size=3), lambda inner: st.dictionaries(st.text(), inner, max_size=4)
)


@st.composite
def histograms(draw: Any) -> Histogram:
    def axis() -> Any:
        if draw(st.booleans()):
            low, wide = draw(st.floats(-1e6, 1e6)), draw(st.floats(1e-3, 1e6))
            return np.linspace(low, low + wide, draw(st.integers(2, 6)))
        return np.sort(draw(hnp.arrays(np.float64, st.integers(2, 6), elements=st.floats())))

    edges = tuple(axis() for _ in range(draw(st.integers(1, 2))))
    shape = tuple(len(one) - 1 for one in edges)
    counts = hnp.arrays(np.int64, shape, elements=st.integers(0, 3) | st.integers(0, 2**62))
    return Histogram(edges, draw(st.dictionaries(st.text(), counts, max_size=3)))


def there_and_back(value: Any, words: bool) -> Any:
    numbers: list[float] = []
    chunks: list[bytes] = []
    shape = node.take(value, numbers, chunks, words)
    assert node.size(shape) == (len(numbers), len(chunks))
    column, chunk = iter(numbers), iter(chunks)
    found = node.give(json.loads(json.dumps(shape)), column, chunk)
    assert rest(column) == rest(chunk) == []
    return found


def rest(iterator: Iterator[Any]) -> list[Any]:
    return list(iterator)


@settings(deadline=None, max_examples=60)
@given(values, st.booleans())
def test_any_value_comes_back(value: Any, words: bool) -> None:
    assert same(there_and_back(value, words), value)


@settings(deadline=None, max_examples=60)
@given(histograms())
def test_any_histogram_comes_back(histogram: Histogram) -> None:
    found = there_and_back(histogram, False)
    assert all(one.tobytes() == other.tobytes() for one, other in zip(found.edges, histogram.edges, strict=True))
    assert found.parts.keys() == histogram.parts.keys()
    for name, counts in histogram.parts.items():
        assert np.array_equal(found.parts[name], counts)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(3), 3),
        (np.bool_(True), True),
        ((1, 2.5), [1, 2.5]),
        ({1: 2.0}, {"1": 2.0}),
        (np.array([None, 1], dtype=object), [None, 1]),
        (2**60, 2**60),
        (2**70 + 1, 2**70 + 1),
        ({"a": {1, 2} - {2}}, {"a": "{1}"}),
    ],
)
def test_what_is_only_nearly_the_same(value: Any, found: Any) -> None:
    assert same(there_and_back(value, False), found)


def test_equal_bins_take_two_numbers() -> None:
    edges = np.linspace(-0.3, 0.7, 101)
    numbers: list[float] = []
    shape = node.take(Histogram((edges,), {"a": np.ones(100, int)}), numbers, [], False)
    assert (shape[0], numbers) == ("h", [-0.3, 0.7])
    edges = edges.copy()
    edges[50] = np.nextafter(edges[50], 1)
    assert node.take(Histogram((edges,), {"a": np.ones(100, int)}), [], [], False)[0] == "H"


def test_columns_are_found_by_key() -> None:
    found: list[float] = []
    shape = node.take({"a": {"norm": 1.0, "raw": np.ones(2)}, "b": 2.0, "c": "word", "d": 3}, found, [], True)
    assert node.columns(shape, 10) == {"a": {"norm": 10, "raw": None}, "b": 11, "c": None, "d": 12}
    assert found == [1.0, 2.0, 3.0]
