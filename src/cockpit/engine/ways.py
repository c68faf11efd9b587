"""Ways to the statistics of individual gradients: the one of fewest operations, or the one that is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, get_args

Way = Literal["auto", "gram", "chunks", "form"]
WAYS: tuple[Way, ...] = get_args(Way)
MEANING: dict[Way, str] = {
    "gram": "inner products of factors",
    "chunks": "formed a few samples at a time",
    "form": "formed all at once",
}


@dataclass(frozen=True)
class Ways:
    """Patterns of parameters' names, and the way asked for; the first that fits counts."""

    asked: tuple[tuple[str, Way], ...] = ()

    def of(self, name: str) -> Way:
        """The way of a parameter."""
        return next((way for pattern, way in self.asked if fnmatchcase(name, pattern)), "auto")


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names of parameters in a sentence, not too many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
