"""What a run's log is made of; every backend keeps these four kinds of item, and nothing else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from cockpit.core import reading
from cockpit.core.shape import maybe, moment, text, whole

STATES = ("finished", "crashed", "ended")  # how an attempt may end; "ended": without close
REASON = 20_000  # characters


@dataclass(frozen=True, slots=True)
class Meta:
    """Entries of the metadata as JSON; later ones replace earlier ones."""

    texts: dict[str, str]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Write values down as they are now; what JSON cannot express becomes a text."""
        return cls({key.encode("utf-8", "replace").decode(): _json(value) for key, value in values.items()})


def _json(value: Any) -> str:
    """A value as JSON that can be read back."""
    try:
        found = json.dumps(value, default=str)
        reading.parsed(found)
        return found
    except (TypeError, ValueError, RecursionError):
        return json.dumps(str(value)[:REASON])


@dataclass(frozen=True, slots=True)
class Attempt:
    """One opening of the folder for writing; a later item with the same id replaces an earlier one."""

    id: int
    first_step: int
    started: float
    reached: int | None = None  # the step it has come to: all below are done
    lost: int = 0
    state: str | None = None  # None until it is closed
    reason: str | None = None
    frames: int | None = None  # written by it; not known of one that was killed before its first pulse

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read one; ``ValueError`` if it is not what a writer writes."""
        found = cls(**values)
        if not (
            found.id and whole(found.id) and whole(found.first_step) and moment(found.started) and whole(found.lost)
        ):
            raise ValueError("no attempt")
        if not (_whole(found.reached) and _whole(found.frames) and ends(found.state, found.reason)):
            raise ValueError("no attempt")
        return found


@dataclass(frozen=True, slots=True)
class Layout:
    """What the numbers of a frame mean, as JSON; stored once."""

    id: int
    text: str


class Frame(NamedTuple):
    """Records of one step; a tuple, because one or two are made at every tracked step."""

    attempt: int
    step: int
    layout: int
    time: float
    numbers: bytes  # float64, little-endian
    notes: str | None  # JSON: reasons of undefined values
    tail: bytes | None  # histograms, arrays and whatever is no number


Item = Meta | Attempt | Layout | Frame


class Entry(NamedTuple):
    """A frame as a reader lists it: without numbers and tail, but with the place where they are."""

    place: int
    attempt: int
    step: int
    layout: int
    time: float
    notes: str | None

    @property
    def sound(self) -> bool:
        """Whether a writer may have written it."""
        return all(map(whole, self[:4])) and type(self.time) is float and moment(self.time)


def ends(state: Any, reason: Any) -> bool:
    """Whether this is how an attempt may have ended, or that it has not."""
    return (state is None or state in STATES) and _reason(reason)


_whole, _reason = maybe(whole), maybe(text(REASON))


@dataclass(slots=True)
class News:
    """What a reader has not seen yet."""

    meta: dict[str, Any] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # entries of the metadata that cannot be used, and why
    damage: str | None = None  # nothing, or not all, can be read, perhaps only for the moment: ask again
    gap: str | None = None  # what is damaged for good, at any time so far; all else was read
    waiting: bool = False  # something at the end is not whole yet: ask again
    torn: str | None = None  # an unfinished record at the end: being written, or left by a kill
