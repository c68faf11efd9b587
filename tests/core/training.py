"""A training run that takes no time: plain steps, what tracking adds to them, pauses, drifts, times that come late."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cockpit.core.budget import Budget

COSTS = {1: 2.0, 2: 10.0, 3: 40.0}  # of a tracked step, in plain steps


@dataclass
class Training:
    """What a step takes, and what tracking it really adds."""

    plain: float = 0.01  # seconds
    noise: float = 0.1  # relative
    stalls: float = 0.0  # probability of a step that takes ten times as long
    costs: Mapping[int, float] = field(default_factory=lambda: dict(COSTS))
    cold: float = 0.0  # seconds more when a tier is tracked for the first time
    after: float = 0.3  # of the cost of the cheapest tier, for the step after
    drift: Callable[[int], float] = lambda step: 1.0  # factor of the plain step
    slow: int = 0  # steps at the start that take fifty times as long: compiling, tuning
    pause: float = 0.0  # seconds, every 500 steps: evaluation
    late: int = 0  # steps after which a time is known
    own: float = 0.7  # part of the cost that the tracker knows of
    standing: float = 0.0  # seconds that we take from each step
    seed: int = 0

    tracked: dict[int, int] = field(default_factory=dict)  # step: tier
    overhead: list[float] = field(default_factory=list)  # seconds that tracking has really cost, up to each step
    trained: list[float] = field(default_factory=list)  # seconds of plain training, up to each step; no pauses

    def run(self, budget: Budget, steps: int) -> Training:
        """Train under a budget."""
        dice, met, waiting = random.Random(self.seed), set[int](), deque[tuple[int, float, int, float]]()
        lost = gone = 0.0
        slowed: dict[int, float] = {}
        for step in range(steps):
            tier = budget.due(step)
            plain = self._plain(step, dice)
            cost = slowed.pop(step, 0.0)
            if tier:
                self.tracked[step] = tier
                cost += self._cost(tier, step, dice) + (self.cold if tier not in met else 0.0)
                met |= {other for other in self.costs if other <= tier}
                slowed[step + 1] = self.after * self.costs[min(self.costs)] * self.plain * self.drift(step)
            pause = self.pause if step % 500 == 499 else 0.0
            waiting.append((step, plain + cost + pause, tier, self.own * cost))
            lost, gone = lost + cost + self.standing, gone + plain
            if self.standing:
                budget.stand(self.standing)
            while waiting and waiting[0][0] <= step - self.late:
                done, seconds, tier, own = waiting.popleft()
                budget.book(done, seconds, tier, own)
            self.overhead.append(lost)
            self.trained.append(gone)
        return self

    def _plain(self, step: int, dice: random.Random) -> float:
        seconds = self.plain * self.drift(step) * max(0.2, dice.gauss(1.0, self.noise))
        if step < self.slow:
            return 50 * seconds
        return 10 * seconds if dice.random() < self.stalls else seconds

    def _cost(self, tier: int, step: int, dice: random.Random) -> float:
        return self.costs[tier] * self.plain * self.drift(step) * max(0.2, dice.gauss(1.0, self.noise))

    def share(self, step: int = -1) -> float:
        """What tracking has cost up to a step, of the plain training."""
        return self.overhead[step] / self.trained[step]

    def times(self, tier: int) -> list[int]:
        """Steps at which a tier was measured."""
        return [step for step, found in self.tracked.items() if found >= tier]

    def dearest(self) -> float:
        """Seconds of the dearest tracked step, with what it did to the next."""
        return max(map(self._jump, self.tracked), default=0.0)

    def _jump(self, step: int) -> float:
        end = min(step + 1, len(self.overhead) - 1)
        return self.overhead[end] - (self.overhead[step - 1] if step else 0.0)
