"""One measured value: where the measuring side and the reading side meet."""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import repeat
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


def records(
    steps: Iterable[int], name: str, kind: Kind, values: Iterable[Any], details: Iterable[Mapping[str, Any]] | None
) -> list[Record]:
    """The defined values of one quantity at several steps."""
    more = repeat(_NO_DETAILS) if details is None else details
    return list(map(_of_fields, zip(steps, repeat(name), repeat(kind), values, repeat(None), more, strict=False)))


_of_fields = partial(tuple.__new__, Record)  # thrice as fast as a call of the class
