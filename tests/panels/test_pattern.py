"""What a reader may type as a filter of layers."""

from __future__ import annotations

import pytest

from cockpit.panels.pattern import compiled

NAME = "encoder.layer.0.attention.self.query.weight" * 4


@pytest.mark.parametrize(
    ("text", "found", "missed"),
    [
        ("fc", "block.FC1", "norm"),
        (r"^encoder.*weight$", "encoder.0.weight", "decoder.0.weight"),
        (r"layer\.(1|2)\.", "layer.2.fc", "layer.3.fc"),
        (r"[0-3]+\.bias", "12.bias", "9.bias"),
        ("(", "f(x)", "fx"),
        ("", "anything", None),
    ],
)
def test_patterns_and_plain_text(text: str, found: str, missed: str | None) -> None:
    assert compiled(text).search(found)
    assert missed is None or not compiled(text).search(missed)


@pytest.mark.parametrize(
    "text", [r"(\w+\.?)*bias$", "(.+)+1", "(.*)*(.*)*(.*)*z$", "(a|a)*b", ".*.*.*.*.*z", "(?=a+)+"]
)
def test_what_could_search_for_ever_is_plain_text(text: str) -> None:
    assert not compiled(text).search(NAME)
    assert compiled(text).search(f"a{text}b")
