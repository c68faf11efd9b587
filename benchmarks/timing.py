"""Time of a tracked step against a plain one: short blocks in turn, so that a busy machine slows both alike."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Protocol

import torch
from quiet import BUSY, Others, wait

Step = Callable[[], None]
NEVER = 10**9  # steps
GAP, GAPS = 3, 3  # to warm up for longer intervals: steps from one that is tracked to the next, and how often


class Session(Protocol):
    """Training under watch."""

    undefined: dict[str, str]  # quantities that never had a value, and why; known at the end

    def step(self) -> None:
        """Take one step."""


@dataclass(frozen=True)
class Effort:
    """How much time a comparison may take."""

    block: float = 0.25  # seconds of a block; a block holds at least one whole cycle
    rounds: int = 5
    cell: float = 8.0  # seconds after which two rounds are enough; after three times as many, one
    warm: int = 8  # tracked steps before each block of tracked steps: at the fifth a GPU records them for replay
    patience: float = 0.0  # seconds to go on for when other programs disturb


class Interval:
    """When to track: at first every step, to warm up, then each ``every``-th; None: no more.

    A step that has no tracked neighbours is recorded for replay by itself: before long intervals come a few short ones.
    """

    def __init__(self, every: int | None) -> None:
        self.every = every
        self.warm = float("inf")  # steps before this one are tracked
        self.spaced = 0.0  # and some before this one

    def begin(self, step: int) -> int:
        """From this step on not all are tracked; returns how many further ones are for warming up."""
        more = GAP * GAPS if self.every is not None and self.every > GAP else 0
        self.warm, self.spaced = step, step + more
        return more

    def __call__(self, step: int) -> bool:
        """Whether the step is due."""
        every = self._at(step)
        return 0 <= step < self.warm or (every is not None and step >= 0 and step % every == 0)

    def until(self, step: int) -> int:
        """Steps from one that is not due to the next that may be: as for an interval by number, none is asked."""
        every = self._at(step)
        return NEVER if every is None else every - step % every

    def _at(self, step: int) -> int | None:
        return GAP if step < self.spaced else self.every


class Clock:
    """Seconds of a step on average over a block.

    ``synced``: the device has finished before the next step begins. ``free``: it is waited for at the end of the block
    only, so that the host may run ahead, as in training. On a CPU both are the same and the first is taken.
    """

    def __init__(self, device: str) -> None:
        self.wait: Callable[[], None] = torch.cuda.synchronize if device == "cuda" else lambda: None
        self.modes = ("synced", "free") if device == "cuda" else ("synced",)

    def one(self, step: Step) -> float:
        """Seconds of one step."""
        return self.block(step, 1, "synced")

    def block(self, step: Step, count: int, mode: str) -> float:
        """Mean seconds of ``count`` steps."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(count):
            step()
            if mode == "synced":
                self.wait()
        self.wait()
        return (time.perf_counter() - begin) / count


@dataclass
class Round:
    """Seconds of a plain step, around a block of tracked ones, and of a tracked step; for each way of timing."""

    plain: dict[str, float]
    tracked: dict[str, float]
    others: float | None  # share of the machine that other programs took


@dataclass
class Comparison:
    """Plain and tracked steps, and what came before them."""

    rounds: list[Round] = field(default_factory=list)
    warmup: list[float] = field(default_factory=list)  # seconds of the first tracked steps of all
    steps: int = 0  # of a tracked block
    undefined: dict[str, str] = field(default_factory=dict)  # quantities without a value, and why

    @property
    def quiet(self) -> list[Round]:
        """The rounds that nobody disturbed."""
        return [one for one in self.rounds if (one.others or 0) < BUSY]

    def row(self) -> dict[str, object]:
        """The numbers of a line of results: milliseconds, and ratios that are medians over the rounds."""
        used = self.quiet if len(self.quiet) > 1 else self.rounds
        found: dict[str, object] = {}
        for mode in used[0].plain:
            prefix = "" if mode == "synced" else f"{mode}_"
            ratios = [one.tracked[mode] / one.plain[mode] for one in used]
            found |= {
                f"{prefix}ratio": significant(median(ratios)),
                f"{prefix}ratios": [significant(ratio) for ratio in ratios],
                f"{prefix}plain_ms": significant(1e3 * median(one.plain[mode] for one in used)),
                f"{prefix}tracked_ms": significant(1e3 * median(one.tracked[mode] for one in used)),
            }
        others = [one.others for one in used if one.others is not None]
        found |= {"warmup_ms": [significant(1e3 * seconds) for seconds in self.warmup], "steps": self.steps}
        return found | {"others": max(others, default=None)}


def significant(value: float) -> float:
    """Four digits: more is noise."""
    return float(f"{value:.4g}")


def compare(
    plain: Step,
    watched: Callable[[Interval], AbstractContextManager[Session]],
    every: int | None,
    clock: Clock,
    effort: Effort,
) -> Comparison:
    """Take turns: plain steps, then steps under watch, then plain ones again.

    A session of its own watches each block. Its first steps are not counted; a block is a whole number of intervals.
    A round that other programs disturbed is taken again while there is patience.
    """
    begin = time.perf_counter()
    once = min(clock.one(plain) for _ in range(3))
    plain_steps = whole(effort.block / once / 2, 3, 500)
    found = Comparison()
    while True:
        others, around = Others(), [_plain(plain, plain_steps, clock)]
        schedule = Interval(every)
        with watched(schedule) as session:
            warm = _warm(session.step, schedule, clock, effort)
            if not found.steps:
                found.warmup, found.steps = warm, _steps(min(warm[1:-1], default=warm[0]), once, every, effort)
            tracked = {mode: clock.block(session.step, found.steps, mode) for mode in clock.modes}
        around.append(_plain(plain, plain_steps, clock))
        found.undefined = session.undefined
        mean_plain = {mode: mean(block[mode] for block in around) for mode in clock.modes}
        found.rounds.append(Round(mean_plain, tracked, others.share()))
        elapsed = time.perf_counter() - begin
        needed = effort.rounds if elapsed < effort.cell else 2 if elapsed < 3 * effort.cell else 1
        if len(found.quiet) >= needed or (elapsed > effort.patience and len(found.rounds) >= needed):
            return found
        if found.rounds[-1] not in found.quiet:
            wait(effort.patience - elapsed)


def _steps(due: float, idle: float, every: int | None, effort: Effort) -> int:
    """How many steps under watch fill a block."""
    if every is None:
        return whole(effort.block / idle, 3, 500)
    return every * whole(effort.block / (due + (every - 1) * idle), 1, 200)


def whole(value: float, least: int, most: int) -> int:
    """A whole number between bounds."""
    return max(least, min(most, int(value)))


def _plain(plain: Step, steps: int, clock: Clock) -> dict[str, float]:
    clock.one(plain)  # what the tracked steps have left in the caches is not the plain step's fault
    return {mode: clock.block(plain, steps, mode) for mode in clock.modes}


def _warm(step: Step, schedule: Interval, clock: Clock, effort: Effort) -> list[float]:
    """The first steps of a session, all of them tracked; fewer if they take long.

    One step more follows, for a quantity that judges a step when the next one is there; and some with gaps between.
    """
    found = [clock.one(step)]
    while len(found) < effort.warm - 1 and sum(found) < 3 * effort.cell:  # the first may compile kernels
        found.append(clock.one(step))
    gaps = schedule.begin(len(found) + 1)  # the next step has begun already
    found += [clock.one(step), clock.one(step)]
    for _ in range(gaps):
        step()
    return found
