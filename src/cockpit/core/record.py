"""One measured value: where the measuring side and the reading side meet."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from cockpit.core.kinds import Kind

_NO_DETAILS: Mapping[str, Any] = {}


class Record(NamedTuple):
    """A quantity's value at a step; ``value`` is None where it is undefined, and ``reason`` says why.

    A tuple, because a dozen are made at every tracked step.
    """

    step: int
    name: str
    kind: Kind
    value: Any
    reason: str | None = None
    details: Mapping[str, Any] = _NO_DETAILS
