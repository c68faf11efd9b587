from __future__ import annotations

from typing import Any

import pytest

from cockpit.results.sweeps.words import number, told


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0123456, "0.0123"),
        (1e-8, "1e-08"),
        (0.9, "0.9"),
        (0.922134, "0.922"),
        (0.999, "0.999"),
        (0.99957, "0.99957"),  # three digits would be 1
        (0.9999999, "0.9999999"),
        (1.0, "1"),
        (3, "3"),
        ("word", "word"),
    ],
)
def test_a_number(value: Any, said: str) -> None:
    assert number(value) == said


def test_the_nearest_word_comes_with_all_where_they_are_few() -> None:
    assert told("cosin", ["constant", "cosine"]) == "'cosin'; one of constant, cosine; did you mean 'cosine'?"
    many = [f"word{place}" for place in range(30)]
    assert told("word29x", many) == "'word29x'; did you mean 'word29' or 'word9'?"
    assert told("?", many).startswith("'?'; one of word0, ")
