"""Performance, speed and hyperparameters of each optimizer on each problem."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cockpit.core.errors import unknown
from cockpit.results.published import Published, nearest
from cockpit.results.result import Result
from cockpit.results.summary import TARGETS, Mode, Setting, performance, ranked, rises, settings, speed, spread

MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """What is said about the best setting of an optimizer on a problem."""

    problem: str
    optimizer: str
    metric: str
    performance: float  # mean over seeds; NaN: diverged or unfinished
    std: float
    speed: float  # epochs to the convergence performance; NaN: no target is known
    hyperparameters: dict[str, Any]
    schedule: str
    seeds: int  # finished
    diverged: int
    epochs: int
    variant: dict[str, Any] = field(default_factory=dict)
    source: str = "cockpit"
    published: Published | None = None
    batch_size: int | None = None
    mixed: tuple[str, ...] = ()  # in what the runs of the problem differ: "epochs", "batch_size"
    rank: int = 1  # among the settings of its optimizer

    @property
    def outcome(self) -> str:
        """The performance as text, or why there is none."""
        if self.diverged:
            return f"diverged ({self.diverged} of {self.seeds})"
        if not self.seeds:
            return "unfinished"
        return shown(self.metric, self.performance)

    @property
    def pace(self) -> str:
        """The speed as text; a mark where no seed reached the target."""
        if not math.isfinite(self.speed):
            return MISSING
        return f"{self.speed:.1f}" if self.speed <= self.epochs else f"> {self.epochs}"

    @property
    def settings(self) -> str:
        """The hyperparameters as text, and where a run is not one of the problem's own setting and of ours."""
        named = {**self.hyperparameters, **({} if self.schedule == "constant" else {"schedule": self.schedule})}
        named |= {name.partition("_")[0]: getattr(self, name) for name in self.mixed}
        named |= self.variant if self.source == "cockpit" else {}  # another program has its own
        given = ", ".join(f"{name} {_short(value)}" for name, value in named.items())
        return given if self.source == "cockpit" else f"{given} ({self.source})"


@dataclass(frozen=True)
class Table:
    """Cells by problem and optimizer, in the order of the table; an optimizer's name may tell a source, too."""

    problems: tuple[str, ...]
    optimizers: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]
    mode: str
    published: bool = False
    every: tuple[Cell, ...] | None = None  # all settings, if they are listed

    @property
    def listed(self) -> tuple[Cell, ...]:
        """What is listed: the best setting of each optimizer, or all."""
        if self.every is not None:
            return self.every
        keys = [(problem, optimizer) for problem in self.problems for optimizer in self.optimizers]
        return tuple(self.cells[key] for key in keys if key in self.cells)


def table(
    results: Iterable[Result],
    problems: Sequence[str] | None = None,
    optimizers: Sequence[str] | None = None,
    mode: Mode = "shared",
    published: bool = False,
    every: bool = False,
) -> Table:
    """Pick the best setting of each optimizer on each problem; what was imported stands apart from own runs.

    Args:
        results: Runs; those of one setting and several seeds are taken together.
        problems: Which, in this order; None: all, those of the benchmark first.
        optimizers: Which, in this order; None: all, by name.
        mode: How the best setting is found: ``"shared"``, ``"final"``, ``"best"`` or ``"most"``.
        published: Whether published figures stand beside.
        every: Whether all settings are listed, too, the best of each optimizer first.
    """
    results = list(results)
    several = len({one.source for one in results}) > 1
    there: dict[tuple[str, str], list[Result]] = {}
    for one in results:
        there.setdefault((one.problem, _column(one, several)), []).append(one)
    rows = _chosen("problem", problems, {problem for problem, _ in there}, _problem_order)
    columns = _chosen("optimizer", optimizers, {column for _, column in there}, str.lower)
    held = {(row, column): there[row, column] for row in rows for column in columns if (row, column) in there}
    mixed = {row: _mixed(results, row) for row in rows}
    order = {key: ranked(settings(found), mode) for key, found in held.items()}
    cells = {key: cell(found[0], published, mixed[key[0]]) for key, found in order.items()}
    full: tuple[Cell, ...] | None = None
    if every:
        full = tuple(
            replace(cell(one, published, mixed[row]), rank=place)
            for (row, _), found in order.items()
            for place, one in enumerate(found, 1)
        )
    return Table(tuple(rows), tuple(columns), cells, mode, published, full)


def only(results: Iterable[Result], schedules: Sequence[str] = (), optimizers: Sequence[str] = ()) -> list[Result]:
    """The runs with one of these schedules and one of these optimizers; none given: all."""
    results = list(results)
    for kind, asked in (("schedule", schedules), ("optimizer", optimizers)):
        if asked:
            _chosen(kind, asked, {getattr(one, kind) for one in results}, str)
            results = [one for one in results if getattr(one, kind) in asked]
    return results


def by_problem(results: Iterable[Result], problems: Sequence[str] | None = None) -> dict[str, list[str]]:
    """The optimizers of each problem, in the order of a table."""
    found: dict[str, set[str]] = {}
    for one in results:
        found.setdefault(one.problem, set()).add(one.optimizer)
    chosen = _chosen("problem", problems, set(found), _problem_order)
    return {problem: sorted(found[problem], key=str.lower) for problem in chosen}


def _column(one: Result, several: bool) -> str:
    """Where a result stands: with its optimizer, and where there are several sources with those of its own."""
    return one.optimizer if one.source == "cockpit" or not several else f"{one.optimizer} ({one.source})"


def _mixed(results: Iterable[Result], problem: str) -> tuple[str, ...]:
    there = [one for one in results if one.problem == problem]
    return tuple(name for name in ("epochs", "batch_size") if len({getattr(one, name) for one in there}) > 1)


def cell(setting: Setting, published: bool = False, mixed: tuple[str, ...] = ()) -> Cell:
    """Say how a setting did; ``mixed`` names what must be told, as it differs from run to run."""
    first = setting.first
    known = nearest(setting.problem, setting.optimizer, setting.metric, first.schedule, first.variant)
    return Cell(
        setting.problem,
        setting.optimizer,
        setting.metric,
        performance(setting),
        spread(setting),
        speed(setting),
        setting.hyperparameters,
        first.schedule,
        len(setting.finished),
        setting.diverged,
        first.epochs,
        first.variant,
        first.source,
        known if published else None,
        first.batch_size,
        mixed,
    )


def shown(metric: str, value: float) -> str:
    """A metric as text: accuracies in per cent, losses with at least two decimals."""
    if not math.isfinite(value):
        return MISSING
    value = 100 * value if rises(metric) else value
    if rises(metric) or value == 0 or 1 <= abs(value) < 1e5:
        return f"{value:.2f}"
    return f"{value:.4g}" if abs(value) < 1 else f"{value:.3g}"


def number(value: Any) -> str:
    """A value with three digits; of what is just below 1 three digits of what it lacks."""
    if not isinstance(value, float):
        return str(value)
    if 0.9 < value < 1:
        return f"{value:.{1 - math.floor(math.log10(1 - value))}f}".rstrip("0")
    return f"{value:.3g}"


def unit(metric: str) -> str:
    """What a metric is, with its unit."""
    split, _, kind = metric.partition("_")
    return f"{split} {kind} (%)" if rises(metric) else f"{split} {kind}"


def _problem_order(problem: str) -> tuple[int, str]:
    """Those of the benchmark in its order, then the others by name."""
    known = list(TARGETS)
    return known.index(problem) if problem in known else len(known), problem


def _chosen(kind: str, asked: Sequence[str] | None, there: set[str], key: Callable[[str], Any]) -> list[str]:
    for name in asked or ():
        if name not in there:
            raise unknown(f"{kind} in these results", name, there)
    return list(dict.fromkeys(asked)) if asked else sorted(there, key=key)


def _short(value: Any) -> str:
    return number(value).replace("e-0", "e-").replace("e+0", "e")
