"""The colours that the page gives to runs, for figures of several."""

from collections.abc import Sequence
from pathlib import Path

from cockpit.panels.palette import apart, in_order
from cockpit.panels.theme import RUNS
from cockpit.plots.reading import runs_folder
from cockpit.store import runs


def colours(paths: Sequence[Path]) -> tuple[str, ...]:
    """A colour for each run, by its place among all runs of its folder; the folder of all runs, where it lies there."""
    return apart([_colour(path.absolute()) for path in paths])


def _colour(path: Path) -> str:
    whole = runs_folder().absolute()
    root = whole if path.is_relative_to(whole) and path != whole else path.parent
    known = in_order(info.path.absolute().as_posix() for info in reversed(runs(root)))
    return known.get(path.as_posix(), RUNS[0])
