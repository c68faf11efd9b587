"""``Readable``: a run's folder while somebody reads it; what is new is read, what is damaged is left out."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cockpit.store.contents import Contents
from cockpit.store.guard import refusing
from cockpit.store.track import Group, Track


class Readable:
    """The frames of a run, read once and when first asked for, and what follows from them, computed once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._contents = Contents(self.path)
        self._cache: dict[Any, Any] = {}
        self._lock = threading.RLock()
        self.version = 0  #: changes whenever anything changed
        self.refresh()

    @refusing
    def refresh(self) -> bool:
        """Read what came since the last call; whether there was anything."""
        with self._lock:
            new = self._contents.refresh()
            if new:
                self.version += 1
                self._cache.clear()
            return new

    def _cached(self, key: Any, build: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._cache:
                self._cache[key] = build()
            return self._cache[key]

    @property
    def _visible(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._cached("visible", self._contents.visible)
        return found

    def _track(self, name: str, without: int = 0) -> Track:
        """The records of a name; ``without`` those that a note marks."""
        if without:
            notes = self._contents.columns.notes
            found: Track = self._cached(("track", name, without), lambda: self._track(name).without(notes, without))
        else:
            found = self._cached(("track", name), lambda: self._contents.columns.track(name, self._visible))
        return found

    def _load(self) -> None:
        """Numbers are read when first asked for: to list runs only a few of them are needed."""
        contents = self._contents
        if contents.columns.complete:
            return
        try:
            spoiled = contents.columns.load(contents.reader)
        except Exception as error:
            contents.problem = f"{contents.reader.path.name}: {error}"
            return
        contents.spoil(spoiled)
        self._spoiled(bool(spoiled))

    def _check(self) -> None:
        """Tails are checked before the first of them is looked at: a damaged one is then no longer on offer."""
        contents = self._contents
        try:
            self._spoiled(contents.check())
        except Exception as error:
            contents.problem = f"{contents.reader.path.name}: {error}"

    def _spoiled(self, anything: bool) -> None:
        if anything:
            self._cache.clear()
            self.version += 1

    def _numbers(self, track: Track) -> Iterator[tuple[Group, NDArray[np.float64]]]:
        for group in track.groups:
            yield group, self._contents.columns.numbers(group.layout, group.frames)
