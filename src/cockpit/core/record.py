"""A measured value: the type that the measuring side and the reading side share."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from cockpit.core.kinds import Kind

_NO_DETAILS: Mapping[str, Any] = {}


class Record(NamedTuple):
    """The value of a quantity at a step; if it is undefined, ``value`` is None and ``reason`` says why.

    A tuple, because every tracked step creates a dozen.
    """

    step: int
    name: str
    kind: Kind
    value: Any
    reason: str | None = None
    details: Mapping[str, Any] = _NO_DETAILS
