"""Answers as JSON text; what was written once, to tell whether it changed, is not written again."""

import hashlib
import json
from typing import Any


class Written:
    """A piece of an answer that is JSON text already."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def dumps(content: Any) -> str:
    """Write plain data without spaces; a number that is not finite is an error."""
    return json.dumps(content, allow_nan=False, separators=(",", ":"))


def answer(content: dict[str, Any]) -> str:
    """Write an answer, whose values may be lists of written pieces."""
    return "{" + ",".join(f"{dumps(key)}:{_value(value)}" for key, value in content.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(part, Written) for part in value):
        return "[" + ",".join(part.text if isinstance(part, Written) else dumps(part) for part in value) + "]"
    return dumps(value)


def mark(*texts: str) -> str:
    """A short mark that changes when a text changes."""
    found = hashlib.blake2b(digest_size=6)
    for text in texts:
        found.update(text.encode())
        found.update(b"\0")
    return found.hexdigest()
