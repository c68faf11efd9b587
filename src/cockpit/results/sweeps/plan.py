"""What a sweep compares: a study file, resolved so that its cells can be listed without torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from cockpit.core.errors import CockpitError

FORMAT = 1
ONESHOT = "oneshot"
SIZES = {"small": 25, "medium": 50, "large": 75}  # settings that are tried
UNREFINED = 50  # settings of the large budget that are drawn from the whole space; the others from the refined box
BEST = 10  # settings that the refined box holds
PROTOCOL = "crowded-valley"
MATRICES = 25  # of the protocol's quadratic problem: a setting's is its number modulo this
# What the study ran anew, each run in a process of its own, and so always on the first matrix.
ONE_MATRIX = frozenset({"Momentum", "NAG", "RMSprop", "Adadelta", "AdaBelief", "LA(Momentum)"})
WITH_MATRICES = "quadratic_deep"


@dataclass(frozen=True, slots=True)
class Task:
    """A problem as it is set up for a sweep."""

    name: str  # as in the study file
    version: int | str  # of a problem of the package; a mark of the code of any other
    metric: str  # "loss" or "accuracy"
    epochs: int
    batch: int
    order: str = "fresh"
    matrix: int = 0
    precision: str = "float32"
    options: Mapping[str, Any] = field(default_factory=dict)  # all others, where they are not the problem's own
    target: float | None = None  # what the test metric is to reach; it defines no run


@dataclass(frozen=True, slots=True)
class Contender:
    """An optimizer that takes part."""

    name: str  # as in the study file
    version: int | str  # of a rule of the package; a mark of the code of any other
    defaults: Mapping[str, Any]  # of all hyperparameters that are known
    space: Mapping[str, Any] = field(default_factory=dict)  # in the study file's syntax
    studied: bool = False  # whether rule and space are the published study's


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Everything that is compared."""

    name: str
    problems: tuple[Task, ...]
    optimizers: tuple[Contender, ...]
    budgets: tuple[str, ...]  # "oneshot", "small", "medium", "large", or a number
    schedules: tuple[str, ...]
    search: str
    seed: tuple[int, ...]  # of the tuning; several: all of it once for each
    seeds: int  # of a one-shot cell and of a winner
    tuning_seeds: int = 1  # of every setting that is tried
    protocol: str | None = None

    @property
    def tuned(self) -> tuple[str, ...]:
        """The budgets that try settings, the small ones first."""
        return tuple(sorted((budget for budget in self.budgets if budget != ONESHOT), key=size))

    @property
    def cells(self) -> int:
        """How many cells the report has."""
        return len(self.problems) * len(self.optimizers) * len(self.budgets) * len(self.schedules) * len(self.seed)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"format": FORMAT, **asdict(self)}


def size(budget: str) -> int:
    """How many settings a budget tries."""
    return SIZES.get(budget) or int(budget)


def refined(budget: str) -> bool:
    """Whether the last settings of a budget are drawn from the box of the best ones before."""
    return budget == "large"


def read(data: Mapping[str, Any]) -> SweepPlan:
    """The plan of its JSON."""
    if data.get("format") != FORMAT:
        raise CockpitError(
            f"the plan of this sweep has format {data.get('format')!r}, not {FORMAT}; it is of another version"
        )
    try:
        given = {one.name: data[one.name] for one in fields(SweepPlan)}
        lists = {name: tuple(given[name]) for name in ("budgets", "schedules", "seed")}
        problems = tuple(Task(**one) for one in given["problems"])
        optimizers = tuple(Contender(**one) for one in given["optimizers"])
    except (KeyError, TypeError) as error:
        raise CockpitError(f"the plan of this sweep cannot be read ({error}); run its study file again") from error
    return SweepPlan(**given | lists | {"problems": problems, "optimizers": optimizers})
