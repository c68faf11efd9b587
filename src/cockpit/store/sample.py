"""A few values of a scalar, spread over a run, for which no other numbers are read."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cockpit.store.contents import Contents
from cockpit.store.track import Track


def sample(contents: Contents, track: Track, visible: NDArray[np.bool_], name: str, count: int) -> list[float]:
    """At most ``count`` values; of those that came for many steps at a time, else of the tracked ones."""
    frames = contents.columns.courses(visible, name)
    if not len(frames):
        return [value for _, value in sorted(_tracked(contents, track, count))]
    chosen = frames[np.unique(np.linspace(0, len(frames) - 1, count).astype(int))]
    found: list[float] = []
    for numbers in _numbers(contents, chosen):
        found += np.frombuffer(numbers[: len(numbers) // 8 * 8], "<f8").tolist()
    places = np.linspace(0, len(found) - 1, count).round().astype(int).tolist() if found else []
    return [found[place] for place in dict.fromkeys(places)]


def _numbers(contents: Contents, frames: NDArray[np.int64]) -> Iterator[bytes]:
    columns = contents.columns
    order = frames[np.argsort(columns["step"][frames], kind="stable")]
    read = {place: numbers for place, _, numbers in contents.reader.numbers(sorted(columns["place"][frames].tolist()))}
    return (read[place] for place in columns["place"][order].tolist() if place in read)


def _tracked(contents: Contents, track: Track, count: int) -> Iterator[tuple[int, float]]:
    place = contents.columns["place"]
    wanted = {int(place[frame]): found for frame, found in track.spread(count).items()}
    read = {place: np.frombuffer(found, "<f8") for place, _, found in contents.reader.numbers(sorted(wanted))}
    return ((at, float(read[key][column])) for key, (at, column) in wanted.items() if key in read)
