"""The published study's figures beside a sweep's cells: only at equal problem, length, budget and schedule."""

from dataclasses import asdict
from functools import cache
from typing import Any

from cockpit.results.published import EPOCHS, Published, crowded_valley
from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.plan import PROTOCOL
from cockpit.results.sweeps.runs import Group

# The study's schedule of that name has one epoch at the full rate before it rises.
SCHEDULES = {"constant": "constant", "cosine": "cosine", "ltr": "trapezoidal"}
# The draws of its medium budget are those it stored as large: tables B.2 and B.5 have most winners from them.
STORED_AS_LARGE = {("medium", "constant"): "B.2", ("medium", "ltr"): "B.5"}
HALF = 0.51  # of the last printed digit
# Why cells of the quadratic are not met although everything that is known of the study is as it was.
REFINED = "its winner may be one of the 25 refined settings, whose generator is not known"
KEPT = "Lookahead's runs pulled back now and then where the data had run out, and its draws of k are not known"
ELSEWHERE = "it is met with setting {} on matrix {}: some settings were tuned in another process"
WHY = {
    ("B.3", "Adam"): ELSEWHERE.format(11, 10),
    ("B.2", "Adam"): ELSEWHERE.format(43, 18),
    ("B.2", "AMSGrad"): ELSEWHERE.format(29, 4),
    ("B.2", "AMSBound"): ELSEWHERE.format(31, 23),
    **{("B.3", "AdaBound"): "not known: 94.23 comes out", ("B.2", "AdaBound"): "not known: 94.23 comes out"},
    **{(f"B.{number}", "AdaBelief"): "it was tuned with something else" for number in (2, 3, 4, 5)},
    **{(f"B.{number}", f"LA({inner})"): KEPT for number in (2, 3, 4, 5) for inner in ("Momentum", "RAdam")},
}


def beside(cell: Cell, group: Group) -> dict[str, Any] | None:
    """The study's figure of a cell; None where it has none.

    ``met``: whether mean and deviation agree to the last printed digit; ``why``: why not, where that is known.
    """
    if not group.contender.studied or EPOCHS.get(cell.problem) != group.task.epochs:
        return None
    protocol = group.plan.protocol == PROTOCOL
    found = _figure(cell, protocol, cell.metric)
    if found is None:
        return None
    train = _figure(cell, protocol, "train_loss")
    met = _equal(cell.mean, found.mean, found, 0) and _equal(cell.std, found.std, found, 1)
    known = {name: value for name, value in asdict(found).items() if name in _SHOWN}
    return {
        **known,
        "train": None if train is None else {"mean": train.mean, "std": train.std},
        "met": met,
        "why": None if met or cell.mean is None else _why(found, protocol),
    }


_SHOWN = ("table", "metric", "mean", "std", "budget", "schedule", "caveat")


def _figure(cell: Cell, protocol: bool, metric: str) -> Published | None:
    tables = _tables().get((cell.problem, cell.optimizer.lower(), metric), ())
    stored = STORED_AS_LARGE.get((cell.budget, cell.schedule)) if protocol else None
    schedule = SCHEDULES.get(cell.schedule)
    for one in tables:
        if one.table == stored or (one.budget, one.schedule) == (cell.budget, schedule):
            return one
    return None


@cache
def _tables() -> dict[tuple[str, str, str], tuple[Published, ...]]:
    found: dict[tuple[str, str, str], tuple[Published, ...]] = {}
    for one in crowded_valley():
        key = (one.problem, one.optimizer.lower(), one.metric)
        found[key] = (*found.get(key, ()), one)
    return found


def _equal(value: float | None, printed: float, figure: Published, place: int) -> bool:
    """Whether a value is the printed one as far as that was printed."""
    if value is None:
        return False
    unit = 100.0 if figure.metric.endswith("accuracy") else 1.0
    digits, _, exponent = figure.printed[place].lower().partition("e")
    last = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(unit * value - unit * printed) <= HALF * last


def _why(figure: Published, protocol: bool) -> str | None:
    if not protocol or figure.problem != "quadratic_deep":
        return None
    known = {(table, name.lower()): why for (table, name), why in WHY.items()}
    other = REFINED if figure.table in ("B.2", "B.5") else None
    return known.get((figure.table, figure.optimizer.lower()), other)
