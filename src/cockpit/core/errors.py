"""Errors that name the fact, the value and the remedy."""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 200  # characters of somebody else's error


class CockpitError(ValueError):
    """A wrong input; the message names what was given and what to give instead."""


class Undefined(Exception):
    """Raised while measuring, with the reason why the value does not exist at this step."""


def unknown(what: str, given: object, known: Iterable[str]) -> CockpitError:
    """Return the error for a name that is not in ``known``, with the nearest names."""
    known = sorted(known)
    folded = {name.lower(): name for name in known}
    near = [folded[match] for match in get_close_matches(str(given).lower(), folded, n=3, cutoff=0.4)]
    hint = f"did you mean {' or '.join(repr(name) for name in near)}? " if near else ""
    return CockpitError(f"unknown {what} {given!r}; {hint}known: {', '.join(known)}")


def why(error: Exception) -> str:
    """Return the reason of an undefined value, or in one line the type and message of any other error."""
    if isinstance(error, Undefined):
        return str(error)
    lines = f"{type(error).__name__}: {error}".splitlines()
    return lines[0] if len(lines[0]) <= LONGEST else lines[0][: LONGEST - 3] + "..."
