"""What watching costs, in sentences."""

from cockpit.core.ledger import WHOLE, Ledger

PARTS = 6  # of the cost of a tracked step that are named


def sentences(costs: Ledger) -> list[str]:
    """What plain and tracked steps take, what takes it, and how much of the budget is used."""
    if not costs.counts.get(WHOLE):
        return [*_plain(costs), *_budget(costs)]
    return [*_plain(costs), *_tiers(costs), *_parts(costs), *_budget(costs)]


def steps(count: int) -> str:
    """A number of steps in words."""
    return "1 step" if count == 1 else f"{count} steps"


def _plain(costs: Ledger) -> list[str]:
    if costs.plain is None:
        return []
    return [f"A plain step takes {_ms(costs.plain)}. A tracked step costs what it takes beyond that."]


def _tiers(costs: Ledger) -> list[str]:
    lines = []
    for tier in costs.tiers:
        if not tier.alone or tier.mean is None:
            continue
        first = f", the first time {_ms(tier.first)}" if tier.first is not None and tier.alone > 1 else ""
        every = f", now every {tier.interval:.0f} steps" if tier.interval is not None and tier.interval >= 1.5 else ""
        lines.append(
            f"Tracking up to {tier.name} adds {_ms(tier.mean)} to a step{first}; "
            f"{tier.name} was tracked at {steps(tier.tracked)}{every}."
        )
    return lines


def _parts(costs: Ledger) -> list[str]:
    parts = [f"{name} {_ms(seconds)}" for name, seconds in costs.dearest_first() if name != WHOLE]
    rest = f" and {len(parts) - PARTS} more" if len(parts) > PARTS else ""
    named = f"; of that, each time, {', '.join(parts[:PARTS])}{rest}" if parts else ""
    return [f"Cockpit takes {_ms(costs.each(WHOLE) or 0.0)} of a tracked step{named}."]


def _budget(costs: Ledger) -> list[str]:
    if costs.allowed is None or costs.spent is None:
        return []
    after = f", after {costs.grace:g} s that are free" if costs.grace else ""
    free = f", {costs.free:.2f} s of them free" if costs.free else ""
    used = f"{costs.used:.1%} used" if costs.used is not None else "nothing used yet"
    guess = " (estimated until a plain step is seen)" if costs.estimated else ""
    spent = f"{costs.spent:.2f} s spent{free}{guess}"
    return [f"Budget: {costs.allowed:.0%} of the training time{after}. So far {used}: {spent}."]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"
