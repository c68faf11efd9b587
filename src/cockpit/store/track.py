"""Where the records of one name are among all frames."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cockpit.core.source import Steps
from cockpit.store.layout import Field

Rows = NDArray[np.int64]
Notes = Mapping[int, Mapping[int, tuple[str | None, int]]]  # by frame, by the record's index: reason and flags


@dataclass(frozen=True, slots=True)
class Group:
    """Those records of a name that share a layout."""

    field: Field
    layout: int
    at: Rows  # which of the name's records
    frames: Rows  # in which frames


@dataclass(frozen=True, slots=True)
class Track:
    """All records of a name, one for each step."""

    steps: Steps  # [S], increasing
    groups: list[Group]

    def without(self, notes: Notes, flag: int) -> "Track":
        """Leave out the records that a note marks."""
        marked = {frame for frame, found in notes.items() if any(flags & flag for _, flags in found.values())}
        if not marked:
            return self
        kept = np.ones(len(self.steps), dtype=bool)
        for group in self.groups:
            for at in np.flatnonzero(np.isin(group.frames, list(marked))):
                _, flags = notes[int(group.frames[at])].get(group.field.index, (None, 0))
                kept[group.at[at]] = not flags & flag
        place = np.cumsum(kept) - 1
        groups = [
            Group(group.field, group.layout, place[group.at[some]], group.frames[some])
            for group in self.groups
            if (some := kept[group.at]).any()
        ]
        return Track(self.steps[kept], groups)

    def reasons(self, notes: Notes) -> dict[str, list[int]]:
        """The reasons that notes give, and at which steps."""
        told = np.fromiter(notes, dtype=np.int64, count=len(notes))
        rows: list[tuple[int, str]] = []
        for group in self.groups:
            for at in np.flatnonzero(np.isin(group.frames, told)):
                reason, _ = notes[int(group.frames[at])].get(group.field.index, (None, 0))
                if reason is not None:
                    rows.append((int(self.steps[group.at[at]]), reason))
        found: dict[str, list[int]] = {}
        for step, reason in sorted(rows):
            found.setdefault(reason, []).append(step)
        return found

    def spread(self, count: int) -> dict[int, tuple[int, int]]:
        """For at most ``count`` records that are one number, spread over the run: their frame, place and column."""
        chosen = set(np.linspace(0, len(self.steps) - 1, count).astype(int).tolist()) if len(self.steps) else set()
        return {
            frame: (at, group.field.columns)
            for group in self.groups
            if isinstance(group.field.columns, int)
            for at, frame in zip(group.at.tolist(), group.frames.tolist(), strict=True)
            if at in chosen
        }
