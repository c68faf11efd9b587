"""Values as plain data."""

from __future__ import annotations

import json
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cockpit.core.histogram import Histogram
from cockpit.core.plain import listed, plain, text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, 1.5),
        (nan, "nan"),
        (-inf, "-inf"),
        (True, True),
        (None, None),
        (np.float32(0.5), 0.5),
        (np.array([[1.0, nan]]), [[1.0, "nan"]]),
        ((1, {2: inf}), [1, {"2": "inf"}]),
        (Path("a"), "a"),
        ("a\ud800", "a\\ud800"),
        (Histogram((np.array([0.0, 1.0]),), {"w": np.array([3])}), {"hist": [3], "edges": [0.0, 1.0]}),
    ],
)
def test_plain(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_what_is_not_finite_can_be_nothing() -> None:
    assert plain({"a": [nan, inf, 1.0]}, odd=lambda number: None) == {"a": [None, None, 1.0]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [({"a": 1.0, "b": nan}, [1.0, "nan"]), ({"a": {"norm": 1.0}}, {"a": {"norm": 1.0}}), ({}, {}), (2.0, 2.0)],
)
def test_numbers_of_parameters_as_a_list(value: Any, expected: Any) -> None:
    assert listed(value) == expected


def test_text_stays_what_it_is() -> None:
    assert text("ümlaut 日本 \n") == "ümlaut 日本 \n"
    assert text("\ud800") != text("\ud801"), "names stay apart"
