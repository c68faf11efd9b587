"""Files that appear complete or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from cockpit.core.errors import CockpitError

_numbers = count()


class Staged:
    """Files that take their places together, once all of them are written; an error before that changes nothing."""

    def __init__(self) -> None:
        self._parts: dict[Path, Path] = {}

    def part(self, path: Path) -> Path:
        """Where to write what will be ``path``; the suffix is the same, for programs that look at it."""
        self._parts[path] = path.with_name(f".{os.getpid()}-{next(_numbers)}.part{path.suffix}")
        return self._parts[path]

    @property
    def paths(self) -> list[Path]:
        """The files, in the order in which they were begun."""
        return list(self._parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for path, part in self._parts.items():
                    part.replace(path)
        finally:
            for part in self._parts.values():
                with suppress(OSError):
                    part.unlink(missing_ok=True)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write that takes its place only when it is complete."""
    with Staged() as files:
        yield files.part(path)


@contextmanager
def refusing(place: Path) -> Iterator[None]:
    """Say in one sentence what keeps something from being written."""
    try:
        yield
    except OSError as error:
        raise CockpitError(f"{place} cannot be written: {error.strerror or error}; choose another place") from error
