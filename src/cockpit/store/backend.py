"""What every backend does: keep items for one writer, give them to many readers."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cockpit.store.item import Attempt, Item, News

UNCLOSED = "ended without close"  # why a run ended, where nobody said it
Signature = tuple[object, ...]
Head = tuple[int, int, int]  # attempt, step and layout of a frame


class Foreign(Exception):
    """The file is none of ours, too new or damaged: it is left alone."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a writer finds in a folder that it continues."""

    attempts: list[Attempt]
    next_layout: int
    last_step: int | None


class Log(Protocol):
    """The writing side; ``OSError`` and ``sqlite3.Error`` may be raised anywhere."""

    path: Path
    kept: Kept

    def write(self, items: Sequence[Item]) -> None:
        """Write all items or none."""

    def close(self) -> None:
        """Let go of the file."""

    def forget(self) -> None:
        """In a forked child: never touch the file again."""


class Reader(Protocol):
    """The reading side; remembers how far it has read."""

    path: Path

    def signature(self) -> Signature:
        """Changes whenever something was written; cheap."""

    def news(self, growing: bool = False) -> News:
        """Read what came since the last call; never raises for a damaged file. ``growing``: somebody may write."""

    def numbers(self, places: Sequence[int]) -> Iterator[tuple[int, Head, bytes]]:
        """Read the numbers of frames, in their order, and whose they are; those that are damaged are left out."""

    def tails(self, places: Sequence[int]) -> Iterator[tuple[int, bytes | None]]:
        """Read the tails of frames, empty where one cannot be read."""

    def unsound(self, places: Sequence[int]) -> list[int]:
        """Of these frames, in their order, those whose tail is damaged."""


def stamp(path: Path | str) -> tuple[int, ...] | None:
    """Identity, size and time of a file; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
