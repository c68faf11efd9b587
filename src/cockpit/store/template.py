"""Templates: one step looks like another, so its records need not be understood anew, only their numbers taken."""

from collections.abc import Sequence
from struct import Struct
from typing import Any

from cockpit.core.kinds import Kind
from cockpit.store import node, tail

NO_VALUE, NO_DETAILS = 1, 2  # flags of a note: the columns are there, but mean nothing
NOTHING: node.Node = ("d",)
FLOATS = frozenset({float})
GAP = "gap"  # the value is missing, its columns stay

Taken = tuple[node.Node, node.Node, int]  # how a record was taken apart: nodes of value and details, flags
Known = tuple[str, Any]  # a node as it is looked at here; nothing of details without entries


class Template:
    """How the records of a frame were taken apart: for frames with the same names, kinds, reasons and shapes."""

    __slots__ = ("_fields", "_kinds", "_pack", "_reasons", "_words", "layout", "notes")

    def __init__(
        self,
        kinds: tuple[Kind, ...],
        reasons: tuple[str | None, ...],
        taken: Sequence[Taken],
        words: bool,
        layout: int,
        notes: str | None,
    ) -> None:
        self._kinds, self._reasons, self._words, self.layout, self.notes = kinds, reasons, words, layout, notes
        self._fields = [
            (_known(value, flags & NO_VALUE), None if details == NOTHING else _known(details, flags & NO_DETAILS))
            for value, details, flags in taken
        ]
        width = sum(node.size(value)[0] + node.size(details)[0] for value, details, _ in taken)
        self._pack = Struct(f"<{width}d").pack

    def fill(
        self,
        kinds: tuple[Kind, ...],
        values: tuple[Any, ...],
        reasons: tuple[str | None, ...],
        details: tuple[Any, ...],
    ) -> tuple[bytes, bytes | None] | None:
        """Return the numbers and the tail of a frame, or None where the template does not fit."""
        if kinds != self._kinds or reasons != self._reasons:
            return None
        numbers: list[Any] = []
        chunks: list[bytes] = []
        for value, more, (shape, rest) in zip(values, details, self._fields, strict=True):
            if shape[0] == "f":
                numbers.append(value)
            elif not _follow(value, shape, numbers, chunks, words=False):
                return None
            if (more or rest) and not (rest and _follow(more or None, rest, numbers, chunks, self._words)):
                return None
        if not FLOATS.issuperset(map(type, numbers)):  # asked of all at once: the nodes of floats say no more
            return None
        return self._pack(*numbers), tail.join(chunks)


def skip(shape: node.Node, numbers: list[float], chunks: list[bytes]) -> None:
    """Fill the columns and the chunks of a value that is missing."""
    columns, blanks = node.size(shape)
    numbers.extend([float("nan")] * columns)
    chunks.extend([b""] * blanks)


def _known(shape: node.Node, missing: int) -> Known:
    if missing:
        return GAP, shape
    return (shape[0], shape[1:]) if shape[0] in ("f", "F") else ("", shape)


def _follow(value: Any, known: Known, numbers: list[Any], chunks: list[bytes], words: bool) -> bool:
    """Take a value apart if it has the known shape; whether entries are floats is left to the caller."""
    what, shape = known
    if what == "F":
        if type(value) is not dict or tuple(value) != shape:
            return False
        numbers.extend(value.values())
        return True
    if what == GAP:
        skip(shape, numbers, chunks)
        return value is None
    return bool(node.take(value, numbers, chunks, words) == shape)
