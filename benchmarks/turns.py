"""One long session under watch against plain training: two copies of a net advance in turn, in short blocks.

A busy machine then slows both alike, though the session is never left: a budget remembers all of its steps.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from timing import Clock, Step, significant

SWAPS = 0  # seed of who goes first


class Stopwatch:
    """A clock that can be stopped: for whoever reads it, nothing happens meanwhile."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._away = clock, 0.0
        self._stopped: float | None = None

    def __call__(self) -> float:
        """Seconds, without those in which it was stopped."""
        return (self._clock() if self._stopped is None else self._stopped) - self._away

    def stop(self) -> None:
        """Stand still."""
        if self._stopped is None:
            self._stopped = self._clock()

    def go(self) -> None:
        """Go on, as if no time had passed."""
        if self._stopped is not None:
            self._away += self._clock() - self._stopped
            self._stopped = None


@dataclass
class Block:
    """Steps in a row, and what they took together."""

    steps: int = 0
    seconds: float = 0.0
    busy: float = 0.0  # seconds of all cores that this program has used meanwhile

    @property
    def each(self) -> float:
        """Seconds of a step."""
        return self.seconds / self.steps

    def take(self, step: Step, count: int, clock: Clock) -> None:
        """Take some steps."""
        begin = time.process_time()
        self.seconds += count * clock.block(step, count, "free")
        self.busy += time.process_time() - begin
        self.steps += count


@dataclass
class Turns:
    """Blocks of plain and of watched steps, side by side."""

    plain: list[Block] = field(default_factory=list)
    watched: list[Block] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Steps under watch."""
        return sum(block.steps for block in self.watched)

    @property
    def seconds(self) -> float:
        """What they took."""
        return sum(block.seconds for block in self.watched)

    @property
    def once(self) -> float:
        """Seconds of a plain step on average."""
        return sum(block.seconds for block in self.plain) / sum(block.steps for block in self.plain)

    @property
    def ratio(self) -> float:
        """Time of the watched steps in all against as many plain ones."""
        return self.seconds / (self.steps * self.once)

    @property
    def busy(self) -> float:
        """The same in seconds of the cores, of which other programs take none. Where we wait, it says nothing."""
        ours, theirs = (sum(block.busy for block in blocks) for blocks in (self.watched, self.plain))
        steps = sum(block.steps for block in self.plain)
        return (ours / self.steps) / (theirs / steps) if theirs else 1.0

    @property
    def typical(self) -> float:
        """The median over neighbouring blocks: a stall in one of them does not count, nor does a rare dear step."""
        return median(ours.each / theirs.each for ours, theirs in zip(self.watched, self.plain, strict=True))

    @property
    def chance(self) -> float:
        """How far the ratio may be off by chance: its standard error, from how the blocks differ."""
        pairs, ratio = list(zip(self.watched, self.plain, strict=True)), self.ratio
        if len(pairs) < 2:
            return 0.0
        apart = [ours.steps * (ours.each - ratio * theirs.each) for ours, theirs in pairs]
        spread = sum(one**2 for one in apart) * len(pairs) / (len(pairs) - 1)
        return float(spread**0.5 / (self.steps * self.once))

    def row(self) -> dict[str, float]:
        """The numbers of a line of results."""
        return {
            "steps": self.steps,
            "blocks": len(self.watched),
            "ratio": significant(self.ratio),
            "chance": significant(self.chance),
            "block_ratio": significant(self.typical),
            "cpu_ratio": significant(self.busy),
            "plain_ms": significant(1e3 * self.once),
        }


def advance(
    plain: Step,
    watched: Step,
    steps: int,
    block: int,
    clock: Clock,
    stopwatch: Stopwatch,
    under_way: Callable[[], bool] = lambda: False,
) -> Turns:
    """Let the watched copy take ``steps`` steps; who goes first is drawn for each pair of blocks.

    Args:
        plain: Takes a step of the copy that is left alone.
        watched: Takes a step of the one that is watched.
        steps: How many of these; one or two more where the last one is tracked.
        block: Steps in a row.
        clock: Takes the time of blocks.
        stopwatch: What the budget reads: it goes while the watched copy trains. Else the other's blocks would be
            pauses of this training, and as regular ones they would earn a share.
        under_way: Whether the next step is tracked; then the other waits, as its backward pass would be seen.
    """
    found, dice = Turns(), random.Random(SWAPS)

    def train() -> None:
        taken = Block()
        stopwatch.go()
        taken.take(watched, min(block, steps - found.steps), clock)
        while under_way() and taken.steps < 2 * block:
            taken.take(watched, 1, clock)
        stopwatch.stop()
        found.watched.append(taken)

    def rest() -> None:
        taken = Block()
        taken.take(plain, block, clock)
        found.plain.append(taken)

    stopwatch.stop()
    while found.steps < steps:
        for turn in (train, rest) if under_way() else dice.sample((train, rest), 2):
            turn()
    return found
