"""What watching a run has cost and what that bought, as the run's metadata tell it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

WHOLE = "tracked steps"  # of the parts: all of them together


@dataclass(frozen=True, slots=True)
class TierCost:
    """A tier of cost: how often it was tracked, and what it takes."""

    name: str
    tracked: int  # steps at which its quantities were measured
    alone: int  # of these, where nothing more expensive was
    seconds: float  # of those, in all
    mean: float | None  # of one
    first: float | None  # of the first
    interval: float | None  # steps from one to the next, of late


@dataclass(frozen=True, slots=True)
class Ledger:
    """Seconds, and shares of the time that training takes by itself."""

    parts: Mapping[str, float] = field(default_factory=dict)  # seconds in our own code
    counts: Mapping[str, int] = field(default_factory=dict)  # how often each of them was timed
    allowed: float | None = None  # the share that was asked for; None: no budget
    grace: float | None = None  # seconds that are free
    free: float = 0.0  # of these, used
    used: float | None = None  # share, without the free seconds
    spent: float | None = None  # seconds, of tracked steps over plain ones
    trained: float | None = None  # seconds
    plain: float | None = None  # seconds of a plain step
    estimated: bool = False  # no plain step was seen to compare with
    tiers: tuple[TierCost, ...] = ()

    def each(self, part: str) -> float | None:
        """Seconds of a part each time that it runs."""
        count = self.counts.get(part) or self.counts.get(WHOLE)
        return self.parts[part] / count if part in self.parts and count else None

    def dearest_first(self) -> list[tuple[str, float]]:
        """All parts and their seconds each time."""
        found = [(name, seconds) for name in self.parts if (seconds := self.each(name)) is not None]
        return sorted(found, key=lambda part: -part[1])

    @property
    def overall(self) -> float | None:
        """Share of the time in all that went into watching, the free seconds included."""
        if self.spent is None or not self.trained or self.spent < 0:
            return None
        return self.spent / (self.spent + self.trained)


def ledger(metadata: Mapping[str, Any]) -> Ledger:
    """Read the entry ``cost`` of a run's metadata; what is missing or odd in it is left out."""
    cost = _mapping(metadata.get("cost"))
    found = _mapping(cost.get("budget"))
    counts = {name: int(one) for name, one in _numbers(cost.get("counts")).items()}
    if tracked := _number(cost.get("tracked")):
        counts.setdefault(WHOLE, int(tracked))
    tiers = found.get("tiers")
    return Ledger(
        parts=_numbers(cost.get("seconds")),
        counts=counts,
        allowed=_number(found.get("share")),
        grace=_number(found.get("grace")),
        free=_number(found.get("free")) or 0.0,
        used=_number(found.get("used")),
        spent=_number(found.get("spent")),
        trained=_number(found.get("trained")),
        plain=_number(found.get("plain")),
        estimated=bool(found.get("estimated")),
        tiers=tuple(map(_tier, filter(_mapping, tiers))) if isinstance(tiers, list | tuple) else (),
    )


def _tier(found: Mapping[str, Any]) -> TierCost:
    return TierCost(
        name=str(found.get("name", "?")),
        tracked=int(_number(found.get("tracked")) or 0),
        alone=int(_number(found.get("alone")) or 0),
        seconds=_number(found.get("seconds")) or 0.0,
        mean=_number(found.get("mean")),
        first=_number(found.get("first")),
        interval=_number(found.get("interval")),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _numbers(value: Any) -> dict[str, float]:
    found = {str(name): _number(entry) for name, entry in _mapping(value).items()}
    return {name: number for name, number in found.items() if number is not None}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)
