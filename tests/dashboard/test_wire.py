from __future__ import annotations

import json

import pytest

from cockpit.dashboard.wire import Written, answer, mark


def test_written_pieces_are_not_written_again() -> None:
    text = answer({"a": 1, 'quo"te': [Written('{"x":[1]}'), {"y": None}], "none": []})
    assert json.loads(text) == {"a": 1, 'quo"te': [{"x": [1]}, {"y": None}], "none": []}


def test_a_browser_could_not_read_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        answer({"a": float("nan")})


def test_a_mark_tells_where_one_text_ends() -> None:
    assert mark("ab", "c") != mark("a", "bc")
    assert mark("ab", "c") == mark("ab", "c")
