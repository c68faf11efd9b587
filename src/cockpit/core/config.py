"""What a user gives as ``config``: hyperparameters as a dictionary, a Namespace or a dataclass, as plain data."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from cockpit.core.errors import CockpitError
from cockpit.core.plain import text

DEEPEST = 16  # levels
LONGEST = 1000  # characters of an entry that is no number


def hyperparameters(config: Any) -> dict[str, Any]:
    """Return the entries by name; what JSON cannot express is spelled out."""
    found = _entries(config)
    if found is None:
        raise CockpitError(f"config is {type(config).__name__}; give a dictionary, a Namespace or a dataclass")
    return {text(str(name)): _plain(value, DEEPEST) for name, value in found.items()}


def _entries(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}
    if type(value).__name__ in ("Namespace", "SimpleNamespace") or callable(getattr(value, "_asdict", None)):
        named: Mapping[Any, Any] = value._asdict() if hasattr(value, "_asdict") else vars(value)
        return named
    return None


def _plain(value: Any, left: int) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | float) or type(value) is int:
        return value
    if isinstance(value, str):
        return text(value)[:LONGEST]
    found = _entries(value)
    if found is not None and left > 0:
        return {text(str(name)): _plain(part, left - 1) for name, part in found.items()}
    if isinstance(value, list | tuple | set | frozenset) and left > 0:
        return [_plain(part, left - 1) for part in value]
    if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)):  # a tensor, or numpy's number
        return _plain(value.item(), 0)
    return _spelled(value)


def _spelled(value: Any) -> str:
    try:
        return text(str(getattr(value, "__name__", None) or value))[:LONGEST]
    except Exception:  # a text that the user's own class fails to give
        return type(value).__name__
