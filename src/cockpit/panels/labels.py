"""Names of layers as short as they can be told apart: without what all share, and short in the middle."""

from collections import Counter
from collections.abc import Sequence

MOST = 20  # letters
CUT = "…"


def labels(names: Sequence[str], most: int = MOST) -> list[str]:
    """A short label for each name; different names stay different."""
    rests = _rests(names)
    found = [_abbreviated(rest, most) for rest in rests]
    seen = Counter(found)
    found = [_cut(rest, most) if seen[label] > 1 else label for label, rest in zip(found, rests, strict=True)]
    seen = Counter(found)
    return [rest if seen[label] > 1 else label for label, rest in zip(found, rests, strict=True)]


def _rests(names: Sequence[str]) -> list[str]:
    """The names without the parts that all begin with; one part at least remains of each."""
    parts = [name.split(".") for name in names]
    common = 0
    if len(set(names)) > 1:
        for column in zip(*(part[:-1] for part in parts), strict=False):
            if len(set(column)) > 1:
                break
            common += 1
    return [".".join(part[common:]) for part in parts]


def _abbreviated(name: str, most: int) -> str:
    """Parts become their first letters, one after the other, until the name fits; numbers and the last part stay."""
    parts = name.split(".")
    for place, part in enumerate(parts[:-1]):
        if len(".".join(parts)) <= most:
            break
        parts[place] = part if part.isdigit() else part[:1]
    return _cut(".".join(parts), most)


def _cut(name: str, most: int) -> str:
    """A name without its middle."""
    if len(name) <= most:
        return name
    tail = most // 2
    return f"{name[: most - tail - 1]}{CUT}{name[-tail:]}"
