"""A measured value: the type that the measuring side and the reading side share."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from cockpit.core.kinds import Kind

_NO_DETAILS: Mapping[str, Any] = {}
COVERED = "covered"  # the detail of a value that is of a part of the model: its share of all parameter elements
PROCESS = "process"  # the detail of a value that is of the samples of one of several processes: which one


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


def percent(share: float) -> str:
    """A share in words; a part is never rounded to the whole or to nothing."""
    return "under 0.1%" if 0 < share < 0.001 else "over 99.9%" if 0.999 < share < 1 else f"{share:.1%}"
