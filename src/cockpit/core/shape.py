"""What a value read from a file must look like before anybody uses it."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

Shape = Callable[[Any], bool]

LONG = 100_000  # characters of a text
MANY = 100_000  # entries of a list
LATEST = 1e11  # seconds since 1970: the year 5138


def text(longest: int = LONG) -> Shape:
    """A text of at most so many characters."""
    return lambda value: isinstance(value, str) and len(value) <= longest


def whole(value: Any) -> bool:
    """A whole number from 0 on that 64 bits hold."""
    return type(value) is int and 0 <= value < 1 << 63


def number(value: Any) -> bool:
    """A number that is finite as a float."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:
        return False


def moment(value: Any) -> bool:
    """A time in seconds since 1970 that a calendar has."""
    return number(value) and 0 <= value < LATEST


def maybe(shape: Shape) -> Shape:
    """None, or what has this shape."""
    return lambda value: value is None or shape(value)


def listed(shape: Shape, most: int = MANY) -> Shape:
    """A list of values that all have this shape."""
    return lambda value: isinstance(value, list) and len(value) <= most and all(map(shape, value))


def mapped(shape: Shape = lambda value: True) -> Shape:
    """A mapping of names to values that all have this shape."""
    return lambda value: isinstance(value, Mapping) and all(map(shape, value.values()))


def keyed(**shapes: Shape) -> Shape:
    """A mapping in which these entries have these shapes where they are there; others may be anything."""
    return lambda value: (
        isinstance(value, Mapping) and all(shape(value[key]) for key, shape in shapes.items() if key in value)
    )
