"""Regular expressions that a reader types: harmless ones are used as such, all others are taken as plain text."""

import re
from typing import Any

LENGTH = 200  # characters of a pattern
FREE = 3  # unbounded repetitions: the time of a search grows with this power of a name's length
_SIMPLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY"}
_ANCHORS = {"AT"}
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}


def compiled(text: str) -> re.Pattern[str]:
    """A pattern, or the text itself where it is no pattern or one that could search for ever."""
    try:
        parsed = re._parser.parse(text, re.IGNORECASE)  # type: ignore[attr-defined]
        if len(text) <= LENGTH and _free(parsed) <= FREE:
            return re.compile(text, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError, AttributeError, _Doubtful):  # the parser is not a public name
        pass
    return re.compile(re.escape(text), re.IGNORECASE)


class _Doubtful(Exception):
    """A part whose cost is not obvious."""


def _free(parts: Any) -> int:
    """Count unbounded repetitions; what is repeated must be a single character, or matches multiply."""
    count = 0
    for kind, value in parts:
        name = str(kind)
        if name in _REPEATS:
            body = list(value[2])
            if len(body) != 1 or str(body[0][0]) not in _SIMPLE:
                raise _Doubtful
            count += 1
        elif name == "SUBPATTERN":
            count += _free(value[-1])
        elif name == "BRANCH":
            count += sum(_free(part) for part in value[1])
        elif name not in _SIMPLE | _ANCHORS:
            raise _Doubtful
    return count
