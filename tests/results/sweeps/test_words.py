from __future__ import annotations

from cockpit.results.sweeps.words import told


def test_the_nearest_word_comes_with_all_where_they_are_few() -> None:
    assert told("cosin", ["constant", "cosine"]) == "'cosin'; one of constant, cosine; did you mean 'cosine'?"
    many = [f"word{place}" for place in range(30)]
    assert told("word29x", many) == "'word29x'; did you mean 'word29' or 'word9'?"
    assert told("?", many).startswith("'?'; one of word0, ")
