"""When to measure, so that watching stays within a share of the training time.

Plain training earns, tracked steps spend. Each tier of cost (see ``kinds.Cost``) has a separate account: expensive
tiers save while cheap ones are tracked often. An expensive tier includes the cheaper ones and pays only what it adds to
them; what an account cannot use flows to the others.

What is kept: after ``HORIZON`` steps, ``spent <= grace + share * trained + surprise``, where the surprise is how much
more than expected the last tracked step of each tier has cost. Before that, early steps may borrow, in all at most what
the first ``HORIZON`` steps will earn.
"""

import time
from collections.abc import Callable, Iterable
from math import inf, log1p
from typing import Any

from cockpit.core.errors import CockpitError
from cockpit.core.meter import FEWEST, PRIOR, Meter, Timed, prior

HORIZON = 1000  # steps after which the early ones are paid for
EARLY = 0.4  # part of what these steps earn that is spread evenly over log(step)
DISTANCE = 0.5  # of the time in which a step earns itself: no two are closer
FIRST = 0.02  # seconds more for what was never tracked: imports, caches
BEFORE = 5  # plain steps before anything is tracked, without grace: the very first ones compile and tune
PROBE = 32  # steps without a plain one, then one is looked at
PATIENCE = 64  # steps to wait for it; where a schedule of the user's own leaves none, we go on without
LATEST = 256  # steps: what is not booked by then will never be
MOST = 10_000  # tracked steps that may lie close together: more of them show nothing new


class Budget(Meter):
    """Says which steps to track; the first ``grace`` seconds of tracking are free."""

    def __init__(
        self,
        share: float,
        grace: float = 10.0,
        clock: Callable[[], float] = time.perf_counter,
        *,
        tiers: Iterable[int] = tuple(PRIOR),
        steps: int | None = None,
        first: float = FIRST,
    ) -> None:
        """Open the accounts.

        Args:
            share: Part of the training time that tracking may cost, in (0, 1].
            grace: Seconds of tracking that are free at the start.
            clock: For :meth:`began` and :meth:`ended`.
            tiers: Tiers that are wanted; a larger number costs more.
            steps: Steps that the run will take, if known: a short one may borrow less.
            first: Seconds more that the very first tracked step may take.
        """
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise CockpitError(f"budget is {share!r}; it is a share of the training time: give a number in (0, 1]")
        if isinstance(grace, bool) or not isinstance(grace, int | float) or not grace >= 0:
            raise CockpitError(f"grace is {grace!r}; give a number of seconds, 0 or more")
        super().__init__(clock)
        self.share, self.grace, self.free = float(share), float(grace), 0.0
        self._horizon = HORIZON if steps is None else max(1, min(HORIZON, steps // 2))
        self._first = first
        self._borrows = self.grace == 0  # else the early steps were seen for free
        self._graced = self.grace > 0
        self._accounts: dict[int, float] = {}  # seconds
        self._pledged: dict[int, dict[int, float]] = {}  # step: what the accounts have paid for it in advance
        self._last: dict[int, float] = {}  # tier: seconds of training when it was last tracked
        self._tracked = 0  # steps booked at that time
        self._next = 0.0  # seconds of training before which nothing can be due
        self._until = 0 if self._graced else BEFORE  # plain steps to be seen before anything is tracked
        self._looked = 0  # steps booked when this was decided
        self._given = (0.0, 0.0)  # what was put into the accounts, in all: borrowed, earned
        self._settled = (0, 0.0)  # steps and standing cost at that time
        self._reserve = 0.0  # seconds that no account could hold: they are spread over the next steps
        self._called: tuple[int, int] | None = None
        self._own = 0.0
        self.want(tiers)

    def want(self, tiers: Iterable[int]) -> None:
        """Change which tiers are tracked."""
        self._accounts = {tier: self._accounts.get(tier, 0.0) for tier in sorted(set(tiers))}
        self._next = 0.0

    # ---- decisions

    def due(self, step: int) -> int:
        """Return the most expensive tier that may be tracked at this step, with all cheaper ones; 0: none."""
        if self.trained < self._next or not self._accounts:
            return 0
        if self._plains < self._until or self._fast:
            if self.steps - self._looked < PATIENCE or self._since < PATIENCE:
                return 0
            self._give_up()
        return self._freely(step) if self._graced else self._affordably(step)

    def idle(self) -> int:
        """Steps after this one, found not to be due, at which nothing can be due either."""
        return self.rest(self._next - self.trained) if self._accounts else 0

    def forget(self, step: int) -> None:
        """A step that was due will never be booked: the loop was left."""
        for tier, paid in self._pledged.pop(step, {}).items():
            if tier in self._accounts:
                self._accounts[tier] += paid

    def _freely(self, step: int) -> int:
        """In the time of grace everything is tracked at every step."""
        dearest = max(self._accounts)
        expected = self.expected(dearest)
        free = self.free + self.standing
        if self.plain is None or expected is None:
            if free + self._waited >= self.grace:
                return self._look(FEWEST)
        elif free + len(self._pledged) * expected >= self.grace:
            self._expire(step)
            if not self._pledged:
                self._open()
            return 0
        elif self._stale():
            return self._look(1)
        return self._track(step, dearest, {})

    def _open(self) -> None:
        """The time of grace is over."""
        self.free += self.standing
        self._graced, self._given, self._settled = False, (0.0, self.share * self.trained), (self.steps, self.standing)

    def _look(self, plain: int) -> int:
        """Leave some steps untracked, to see what training takes by itself."""
        self._until, self._looked, self._below = self._plains + plain, self.steps, 0
        return 0

    def _give_up(self) -> None:
        """No step is plain, a schedule of the user's own tracks them all: then the tracker's own word counts."""
        self._until, self._since, self._fast = 0, 0, 0
        for found in list(self._waiting)[-FEWEST:]:
            self._plainly(max(found.seconds - found.own, 0.0))

    def _stale(self) -> bool:
        """Whether no plain step was seen for long; the fewer are known, the shorter is long."""
        longest = 4 * PROBE if self._graced else PROBE
        return self._below > 3 or self._since >= min(longest, 4 * self._seen if self._seen > BEFORE else 1)

    def _affordably(self, step: int) -> int:
        """Return the most expensive tier that its account and those of all cheaper tiers can pay."""
        prices = self._prices()
        self._earn(prices)
        if self.steps - self._tracked < self.steps // MOST:
            return 0
        if self._stale():
            return self._look(1)
        due, wait = 0, 0.0
        for tier, price in prices.items():
            wait = self._wait(tier, price)
            if wait > 0 and not self._may_begin(tier, price):
                break
            due = tier
        if not due:
            self._next = self.trained + wait
            return 0
        return self._track(step, due, {tier: price for tier, price in prices.items() if tier <= due})

    def _may_begin(self, tier: int, price: float) -> bool:
        """The very first tracked step may be borrowed, for half of what the early steps will earn."""
        if self.tiers or self._pledged or not self._borrows or tier != min(self._accounts):
            return False
        return price <= self.share * max((self.plain or 0.0) * self._horizon / 2, self.trained)

    def _wait(self, tier: int, price: float) -> float:
        """Seconds of training that must pass at least: to earn what is missing, and to keep a distance."""
        speed = self.share
        if self._borrows and self.steps < self._horizon:
            speed *= 1 + EARLY * self._horizon / ((1 + self.steps) * log1p(self._horizon))
        distance = self._last.get(tier, -inf) + DISTANCE * price / speed - self.trained
        return max((price - self._accounts[tier]) / speed, distance)

    def _track(self, step: int, tier: int, pledge: dict[int, float]) -> int:
        for other, price in pledge.items():
            self._accounts[other] -= price
            self._last[other] = self.trained
        self._expire(step)
        self._pledged[step] = pledge
        self._tracked = self.steps
        self._follow(step, tier)
        return tier

    def _expire(self, step: int) -> None:
        """Give up on steps that were never booked."""
        while self._pledged and (oldest := next(iter(self._pledged))) < step - LATEST:
            self.forget(oldest)

    # ---- accounts

    def _prices(self) -> dict[int, float]:
        """What each tier adds to the cheaper ones, in seconds of a tracked step."""
        known = {tier: self.expected(tier) for tier in self._accounts}
        prices, below = {}, 0.0
        for tier, cost in known.items():
            cost = self._guess(tier, below, known) if cost is None else cost
            prices[tier] = max(cost - below, 0.0)
            below = max(below, cost)
        return prices

    def _guess(self, tier: int, below: float, known: dict[int, float | None]) -> float:
        """What a tier that was never tracked by itself may cost."""
        for other, cost in known.items():
            if other > tier and cost is not None:  # it is a part of this
                return max(below, cost * prior(tier) / prior(other))
        return self._first + max(prior(tier) * (self.plain or 0.0), 2 * below if self.tiers else 0.0)

    def _earn(self, prices: dict[int, float]) -> None:
        """Put what training has earned since the last time into the accounts."""
        borrowed, earned = self._given[0], self.share * self.trained
        if self._borrows:
            early = self.steps < self._horizon
            if early or not borrowed:
                part = min(1.0, log1p(self.steps) / log1p(self._horizon))
                borrowed = self.share * EARLY * self._horizon * (self.plain or 0.0) * part
            earned -= EARLY * earned if early else borrowed
        spread = self._reserve * min(1.0, (self.steps - self._settled[0]) / HORIZON)
        self._accounts[min(self._accounts)] += borrowed - self._given[0] - (self.standing - self._settled[1])
        for tier, weight in self._weights().items():
            self._accounts[tier] += weight * (earned - self._given[1] + spread)
        self._given, self._settled = (borrowed, earned), (self.steps, self.standing)
        self._reserve += self._level(prices) - spread
        self._reserve = min(self._reserve, self.share * HORIZON * (self.plain or 0.0))

    def _weights(self) -> dict[int, float]:
        """Return shares: half for the most expensive tier, half of the rest for the next; the cheapest begins alone."""
        cheapest, *dearer = self._accounts
        if sum(tier.count for tier in self.tiers.values()) < FEWEST:
            return {cheapest: 1.0}
        weights, rest = {}, 1.0
        for tier in reversed(dearer):
            rest /= 2
            weights[tier] = rest
        return {**weights, cheapest: rest}

    def _level(self, prices: dict[int, float]) -> float:
        """What an account cannot use flows to the next cheaper one, and from the cheapest to the more expensive ones.

        No account holds more than its next step costs: so there are no bursts. Returns what none can hold.
        """
        spare, slack = 0.0, 2 * self.share * (self.plain or 0.0)
        for tier in (*reversed(self._accounts), *self._accounts):
            balance, full = self._accounts[tier] + spare, prices[tier] + slack
            self._accounts[tier] = min(balance, full)
            spare = max(balance - full, 0.0)
        return spare

    def _doubt(self) -> None:
        super()._doubt()
        self._look(FEWEST)

    def _spend(self, found: Timed, cost: float) -> None:
        super()._spend(found, cost)
        pledged = {} if found.after else self._pledged.pop(found.step, {})
        if self._graced:
            self.free += cost
        elif self._accounts:
            payer = max((tier for tier in self._accounts if tier <= found.tier), default=min(self._accounts))
            self._accounts[payer] -= cost - sum(pledged.values())
            self._next = 0.0

    # ---- used as a schedule, it takes the time by itself

    def __call__(self, global_step: int) -> bool:
        """Whether this step is tracked; to be called at the beginning of every step."""
        if self._called is not None:
            step, tier = self._called
            self.ended(step, tier, own=self._own)
        tier = self.due(global_step)
        self._called, self._own = (global_step, tier), 0.0
        self.began()
        return tier > 0

    def spend(self, seconds: float) -> None:
        """Note what the tracker knows to have spent itself on the step under way."""
        self._own += seconds

    def report(self) -> dict[str, Any]:
        """What was allowed, what was used, and what it bought; see :meth:`Meter.report`."""
        found = super().report()
        free = found["spent"] if self._graced else self.free
        used = (found["spent"] - free) / found["trained"] if found["trained"] > 0 else None
        return {"share": self.share, "grace": self.grace, "free": free, **found, "used": used}
