"""What watching costs: the time of tracked steps over that of plain ones, whatever it was that slowed them."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any

from cockpit.core.kinds import Cost

#: what a tracked step may cost if nothing is known, in plain steps
PRIOR = {Cost.ECONOMY.value: 3.0, Cost.BUSINESS.value: 12.0, Cost.FULL.value: 40.0}
AFTER = 2  # steps after a tracked one that it still slows: something arrives there, caches are cold
WINDOW = 31  # plain steps that say what is typical now
STARTUP = 8  # plain steps of which the fastest counts: the first ones also compile, tune and fill caches
FEWEST = 3  # plain steps that must be known before a tracked one is judged
DOUBT = 0.8  # of the fastest plain steps: what is faster than that is another training
PAUSE = 4.0  # times what is typical: longer than that is not training
RECENT = 9  # tracked steps that say what the next one will cost
COLD = 0.05  # seconds: the most that being the first may have cost
FACTOR = 20.0  # times what the tracker spent itself: the most that it may have slowed a step
UNSEEN = 2.0  # times what stamps show of our own work between two steps: the calls of hooks, caches that it evicts
GLANCE = 2e-4  # seconds that our work between two steps takes at most; what is more was another program's
PASSED = 1e-6  # seconds that a step takes us at which nothing is asked: the call of a hook
TOGETHER = 0.02  # seconds of plain steps that are booked together: to book takes 10 to 30 us
WAITING = 1024  # tracked steps that may wait for a plain one to be compared with


@dataclass
class Tier:
    """What the tracked steps of one tier have cost."""

    count: int = 0
    seconds: float = 0.0
    first: float | None = None  # cold: imports, caches, kernels
    costs: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    plain: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))  # what a plain step took at the time
    after: deque[float] = field(default_factory=lambda: deque(maxlen=AFTER * RECENT))  # what the steps after it lost
    steps: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))  # where its quantities were measured

    def expected(self, plain: float, prior: float) -> float | None:
        """Seconds that the next one will cost, with what it does to the steps after it; None if there was none.

        Where plain steps take longer than they did, so will tracked ones.
        """
        if not self.costs:
            return None
        costs = [
            cost * max(1.0, plain / then) if then else cost for cost, then in zip(self.costs, self.plain, strict=True)
        ]
        if self.count == 1:  # it was cold, or is always expensive
            cost = max(costs[0] / 3, min(costs[0] - COLD, 2 * prior * plain))
        else:
            cost = min(costs) if self.count == 2 else median(costs)
        return max(cost + (AFTER * sum(self.after) / len(self.after) if self.after else 0.0), 0.0)

    def interval(self) -> float | None:
        """Steps from one tracked step to the next, of late."""
        return (self.steps[-1] - self.steps[0]) / (len(self.steps) - 1) if len(self.steps) > 1 else None


@dataclass(slots=True)
class Timed:
    """A tracked step, or one after it, and the time it took."""

    step: int
    tier: int
    seconds: float
    own: float
    after: bool = False


class Meter:
    """Compares tracked steps with plain ones; free of torch and of decisions.

    Every step is booked once, tracked or not. Times may come late, as those of a GPU do.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.plain: float | None = None  #: seconds of a typical plain step; None until one was seen
        self.trained = 0.0  #: seconds of training, without what tracking took and without pauses
        self.tracking = 0.0  #: seconds that tracked steps took more than plain ones
        self.standing = 0.0  #: seconds that we took from steps that were not tracked
        self.steps = 0  #: steps booked
        self.tiers: dict[int, Tier] = {}
        self._window: deque[float] = deque(maxlen=WINDOW)
        self._seen = 0  # plain steps since training changed
        self._plains = 0  # plain steps ever
        self._since = 0  # steps since the last plain one
        self._pause = inf  # a plain step that takes longer is none
        self._floor = 0.0  # one that is faster means that training has changed, if the next one is too
        self._fast = 0
        self._below = 0  # tracked steps in a row that took less than a plain one
        self._waiting: deque[Timed] = deque()
        self._waited = 0.0  # their seconds
        self._after: dict[int, int] = {}  # step: the tier of the tracked step that it follows
        self._began: float | None = None
        self._ended: float | None = None

    @property
    def spent(self) -> float:
        """Seconds that watching has cost."""
        return self.tracking + self.standing

    # ---- stamps, where the clock tells when a step is over

    def began(self, stamp: float | None = None) -> None:
        """A step begins now; the time since the last one ended was ours."""
        stamp = self.clock() if stamp is None else stamp
        if self._ended is not None:
            self.standing += UNSEEN * min(stamp - self._ended, GLANCE)
        self._began, self._ended = stamp, None

    def ended(
        self,
        step: int,
        tier: int = 0,
        stamp: float | None = None,
        *,
        own: float = 0.0,
        idle: float = 0.0,
        count: int = 1,
    ) -> None:
        """A step is over now, or ``count`` plain ones in a row; see :meth:`book`."""
        stamp = self.clock() if stamp is None else stamp
        if self._began is not None:
            self.book(step, stamp - self._began, tier, own, idle, count)
        self._began, self._ended = None, stamp

    def stand(self, seconds: float) -> None:
        """Book what we took from a step that is not tracked; :meth:`began` does so by itself."""
        self.standing += seconds

    # ---- bookings

    def book(
        self, step: int, seconds: float, tier: int = 0, own: float = 0.0, idle: float = 0.0, count: int = 1
    ) -> None:
        """Take the time of a step.

        Args:
            step: Its number.
            seconds: Its whole time, from the end of the step before to its own end.
            tier: The most expensive tier that was tracked in it; 0: none.
            own: Seconds of it that the tracker knows to have spent itself.
            idle: Seconds of it before its forward pass began: a pause there, an evaluation say, is not ours.
            count: Plain steps that took these seconds together; ``step`` is the first of them.
        """
        self.steps += count
        self.standing += PASSED * (count - 1)
        if tier:
            self._since += 1
            self._follow(step, tier)
            if idle > (self.plain or 0.0):
                seconds -= idle - (self.plain or 0.0)
            self._take(Timed(step, tier, seconds, own))
        elif self._after and step in self._after:
            self._since += 1
            self._take(Timed(step, self._after.pop(step), seconds, own, True))
        else:
            self._since = 0
            self._plainly(seconds / count, count)

    def rest(self, most: float) -> int:
        """Plain steps that may be booked together, so that this takes no part of their time; ``most``: seconds."""
        if self._after or self._seen <= STARTUP or not self.plain or self._fast:
            return 0
        return int(max(min(most, TOGETHER), 0.0) / self.plain)

    def expected(self, tier: int) -> float | None:
        """Seconds that a tracked step of this tier will cost, with what it does to those after it; None: unknown."""
        return self.tiers[tier].expected(self.plain or 0.0, prior(tier)) if tier in self.tiers else None

    def _follow(self, step: int, tier: int) -> None:
        self._after.pop(step, None)
        for later in range(step + 1, step + 1 + AFTER):
            self._after[later] = tier
        while len(self._after) > 64 * AFTER:  # steps that were never booked
            del self._after[next(iter(self._after))]

    # ---- plain steps

    def _plainly(self, seconds: float, count: int = 1) -> None:
        if seconds < self._floor:
            self._fast += 1
            if self._fast > 1:
                self._doubt()
        else:
            self._fast = 0
        self._window.append(seconds)
        self._plains += count
        self._seen += 1
        if self._seen <= STARTUP:
            self._start()
            self.trained += (count - 1) * (self.plain or 0.0)
            return
        if count > 1 or self._seen % STARTUP == 0:  # many at once are much to learn from
            self._learn()
        plain = self.plain or 0.0
        longest = self._pause if count == 1 else PAUSE * plain  # stalls that are regular are part of their mean
        self.trained += count * (seconds if seconds < longest else plain)

    def _start(self) -> None:
        """The first plain steps: none counts for more than the fastest."""
        before = (self._seen - 1) * (self.plain or 0.0) if self._seen > 1 else 0.0
        self.plain = min(self._window)
        self.trained += self._seen * self.plain - before
        self._pause, self._floor = PAUSE * self.plain, DOUBT * self.plain
        if self._waiting and self._seen >= FEWEST:
            self._settle()

    def _learn(self) -> None:
        """Typical is the mean of the middle half. Stalls that are regular are training, rare ones are pauses."""
        ordered = sorted(self._window)
        count = len(ordered)
        middle = ordered[count // 4 : count - count // 4]
        self.plain = sum(middle) / len(middle)
        self._pause = max(PAUSE * self.plain, 2 * ordered[int(0.9 * (count - 1))])
        self._floor = DOUBT * ordered[count // 10]

    def _doubt(self) -> None:
        """Steps are faster than plain ones were: these are typical no more, so we look anew."""
        if self._seen <= STARTUP:
            self.trained -= self._seen * (self.plain or 0.0)
        self._window.clear()
        self._seen, self._fast, self._floor = 0, 0, 0.0

    # ---- tracked steps

    def _take(self, found: Timed) -> None:
        if not found.after and found.seconds < self._floor:
            self._doubt()
        if self._seen >= FEWEST:
            self._judge(found)
            return
        self._waiting.append(found)
        self._waited += found.seconds
        if len(self._waiting) > WAITING:
            oldest = self._waiting.popleft()
            self._waited -= oldest.seconds
            self._believe(oldest)

    def _settle(self) -> None:
        """Plain steps are known now: judge what has waited for them."""
        waiting, self._waiting, self._waited = self._waiting, deque(), 0.0
        usual = 4 * median(found.seconds for found in waiting) + self._pause
        for found in waiting:
            if found.seconds > usual:  # a data loader that starts up, say
                found.seconds = max(usual, found.own)
            self._judge(found)

    def _judge(self, found: Timed) -> None:
        plain = self.plain or 0.0
        tier = self.tiers.setdefault(found.tier, Tier())
        raw = found.seconds - plain
        self._below = self._below + 1 if raw < 0 else 0
        most = _believable(tier.after if found.after else tier.costs, found.own) + self._pause
        self.trained += plain
        self._enter(found, tier, max(min(raw, most), 0.0), raw)

    def _believe(self, found: Timed) -> None:
        """No plain step is in sight: the tracker's own word counts."""
        cost = min(found.own, found.seconds)
        self.trained += found.seconds - cost
        self._enter(found, self.tiers.setdefault(found.tier, Tier()), cost, cost)

    def _enter(self, found: Timed, tier: Tier, cost: float, raw: float) -> None:
        tier.seconds += cost
        if found.after:
            tier.after.append(min(raw, cost))  # below zero by chance: it evens out
        else:
            tier.count += 1
            tier.costs.append(raw)  # a pause may lie in it: the median bears that
            tier.plain.append(self.plain or 0.0)
            tier.first = cost if tier.first is None else tier.first
            for other in self.tiers:
                if other <= found.tier:
                    self.tiers[other].steps.append(found.step)
        self._spend(found, cost)

    def _spend(self, found: Timed, cost: float) -> None:
        """Seconds are gone; what follows from it is for others to say."""
        self.tracking += cost

    # ---- what it found

    def report(self) -> dict[str, Any]:
        """What watching has cost so far, as plain data; ``estimated``: no plain step was seen to compare with."""
        own = sum(found.own for found in self._waiting)
        spent, trained = self.spent + own, self.trained + self._waited - own
        return {
            "steps": self.steps,
            "plain": self.plain,
            "trained": trained,
            "spent": spent,
            "standing": self.standing,
            "used": spent / trained if trained > 0 else None,
            "estimated": self._seen < FEWEST and bool(self._waiting),
            "tiers": [self._told(tier) for tier in sorted({*self.tiers, *(found.tier for found in self._waiting)})],
        }

    def _told(self, number: int) -> dict[str, Any]:
        tier = self.tiers.get(number, Tier())
        waiting = [found for found in self._waiting if found.tier == number]
        count = tier.count + sum(not found.after for found in waiting)
        seconds = tier.seconds + sum(found.own for found in waiting)
        dearer = sum(other.count for key, other in self.tiers.items() if key > number)
        dearer += sum(found.tier > number and not found.after for found in self._waiting)
        return {
            "tier": number,
            "name": name(number),
            "tracked": count + dearer,  # an expensive tier includes the cheaper ones
            "alone": count,
            "seconds": seconds,
            "mean": seconds / count if count else None,
            "first": tier.first,
            "expected": self.expected(number),
            "interval": tier.interval(),
        }


def _believable(costs: Sequence[float], own: float) -> float:
    """The most that a step can have cost: a pause of the user's may lie in its time. By the latest, or our own part."""
    if len(costs) < FEWEST:
        return FACTOR * own + COLD if own else inf
    ordered = sorted(costs)
    return max(4 * ordered[len(ordered) // 2], 2 * ordered[(3 * len(ordered)) // 4], own)


def prior(tier: int) -> float:
    """What a tracked step of a tier may cost if nothing is known, in plain steps."""
    return PRIOR.get(tier, PRIOR[Cost.FULL.value])


def name(tier: int) -> str:
    """A tier as its preset is called."""
    return next((cost.name.lower() for cost in Cost if cost.value == tier), f"tier {tier}")
