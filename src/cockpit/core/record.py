"""One measured value: where the measuring side and the reading side meet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cockpit.core.kinds import Kind


@dataclass(frozen=True, slots=True)
class Record:
    """A quantity's value at a step; ``value`` is None where it is undefined, and ``reason`` says why."""

    step: int
    name: str
    kind: Kind
    value: Any
    reason: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
