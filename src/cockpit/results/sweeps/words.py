"""Wrong words, and the right ones beside them."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

FEW = 16  # words that are all listed


def told(value: Any, known: Iterable[str], more: str = "") -> str:
    """A word that is none of the known ones, the nearest of them, and all where they are few."""
    known = list(dict.fromkeys(known))
    folded = {name.lower(): name for name in known}
    near = [folded[match] for match in get_close_matches(str(value).lower(), folded, n=2, cutoff=0.5)]
    parts = [repr(value)]
    if len(known) <= FEW or not near:
        parts.append(f"one of {', '.join(known)}{more}")
    if near:
        parts.append(f"did you mean {' or '.join(map(repr, near))}?")
    return "; ".join(parts)
