"""What watching costs, as one number with its reason: the time it adds to training, as a share of it."""

from dataclasses import dataclass

import numpy as np

from cockpit.core.ledger import ledger
from cockpit.core.source import Series, Source

MANY = 10.0  # a share from which on it is said as a multiple


@dataclass(frozen=True, slots=True)
class Spending:
    """The share of the training time that watching takes, and what it was allowed to take."""

    share: float | None  # without the free seconds at the start
    allowed: float | None = None  # None: no budget
    free: float = 0.0  # seconds of the free start, used
    grace: float | None = None  # seconds that are free

    @property
    def short(self) -> str:
        """The number: 4.0% of 5%; empty where nothing is known."""
        if self.allowed is not None and self.share is not None:
            return f"{_percent(self.share)} of {100 * self.allowed:g}%"
        return "" if self.share is None else _percent(self.share)

    @property
    def why(self) -> str:
        """What belongs to the number: how much of the start was free."""
        if self.allowed is None or not self.free:
            return ""
        if self.share is None or (not self.share and self.grace and self.free < self.grace):
            return f"{self.free:.2g} s of {self.grace or self.free:g} s of free start used"
        return f"after {self.free:.3g} s of free start"

    def __str__(self) -> str:
        """The number and its reason."""
        return ", ".join(part for part in (self.short, self.why) if part)

    @property
    def told(self) -> str:
        """The same in the words of a sentence; empty where nothing is known."""
        if self.allowed is not None:
            return f"tracking {self}" if str(self) else ""
        return "" if self.share is None else f"tracking adds {self.short}"


def _percent(share: float) -> str:
    return f"{share:,.0f} times" if share >= MANY else f"{100 * share:.1f}%"


def spending(source: Source) -> Spending:
    """What watching this run costs: by its budget, as it was metered against plain steps, or by its own clock."""
    found = ledger(source.metadata)
    if found.allowed is not None and (found.used is not None or found.free):
        return Spending(found.used, found.allowed, found.free, found.grace)
    if found.spent and found.trained:
        return Spending(found.spent / found.trained)
    costs = source.scalar("tracking_seconds").defined()
    costs = costs if len(costs) else source.detail("Time", "tracking").defined()
    return Spending(_clocked(source, costs))


def overhead(times: Series, costs: Series) -> float | None:
    """What tracking cost, as a share of the time of everything else."""
    if len(times) < 2 or not len(costs):
        return None
    whole = float(times.values[-1] - times.values[0])
    spent = float(costs.values[(costs.steps >= times.steps[0]) & (costs.steps < times.steps[-1])].sum())
    return spent / (whole - spent) if whole > spent else None


def _clocked(source: Source, costs: Series) -> float | None:
    times = source.scalar("Time").defined()
    if (share := overhead(times, costs)) is not None:
        return share
    started, updated = source.metadata.get("started"), getattr(source, "updated", None)
    if not isinstance(started, int | float) or not isinstance(updated, int | float) or not len(costs):
        return None
    whole, spent = float(updated - started), float(np.sum(costs.values))
    return spent / (whole - spent) if whole > spent > 0 else None
