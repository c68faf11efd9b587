"""Values as plain data: what JSON, a table's heading or another program takes."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from cockpit.core.histogram import Histogram


def text(value: str) -> str:
    """The text with half characters (lone surrogates, as in undecodable file names) spelled out: no file takes them."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def plain(value: Any, odd: Callable[[float], Any] = str) -> Any:
    """As JSON; ``odd`` says what a number that is not finite becomes, which JSON does not have."""
    if isinstance(value, Histogram):
        return value.as_dict()
    if hasattr(value, "tolist"):  # arrays and their numbers
        return plain(value.tolist(), odd)
    if isinstance(value, float):
        return value if isfinite(value) else odd(value)
    if isinstance(value, list | tuple):
        return [plain(entry, odd) for entry in value]
    if isinstance(value, Mapping):
        return {text(str(key)): plain(entry, odd) for key, entry in value.items()}
    return value if isinstance(value, int) or value is None else text(str(value))


def listed(value: Any) -> Any:
    """Return plain data with per-parameter numbers as lists in the order of the parameters, as in the original."""
    if isinstance(value, Mapping) and value and all(isinstance(entry, int | float) for entry in value.values()):
        return [plain(entry) for entry in value.values()]
    return plain(value)
