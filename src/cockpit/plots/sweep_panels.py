"""What is drawn of a sweep: from a report to panels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cockpit.core.source import Values
from cockpit.panels import Panel, bench, sweeps
from cockpit.panels._base import slug
from cockpit.panels.bench import Curve, Grid, Measure, palette
from cockpit.panels.sweeps import CAP, SHARE, Line, Pair, Upright
from cockpit.results.summary import rises
from cockpit.results.sweeps import sheets
from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.gains import CONSTANT, Matrix, by_key
from cockpit.results.sweeps.plan import ONESHOT
from cockpit.results.sweeps.report import Report
from cockpit.results.sweeps.winners import Winner
from cockpit.results.tables import shown, unit

ADAM, ADABOUND = "Adam", "AdaBound"
POINTS = 60  # of a learning curve, at most
VERDICTS = "Better, worse, or noise"
MATRICES, SIDE_BY_SIDE = "Tuned against untuned", "Side by side"
AGAINST, CURVES = "Several untuned optimizers, or tuning one", "Learning curves"


@dataclass(frozen=True)
class Drawing:
    """Panels of one part of a report."""

    heading: str
    panels: tuple[Panel, ...]
    size: str = "small"  # or "wide", "matrix"
    width: int = 300
    folded: str = ""  # what is said where they are shown after a click


def drawings(report: Report) -> list[Drawing]:
    """All of them, part by part."""
    plan = report.plan
    first = [one for one in report.matrices if (one.schedule, one.tuning_seed) == (plan.schedules[0], plan.seed[0])]
    others = [one for one in report.matrices if one not in first]
    side_by_side = _parallel(report)
    found = [
        Drawing(VERDICTS, tuple(_pairs(report)), "matrix", folded="Each pair"),
        Drawing(MATRICES, _matrices(report, first), "matrix"),
        Drawing(MATRICES, _matrices(report, others), "matrix", folded="Other schedules and seeds"),
        Drawing(MATRICES, _matrices(report, report.alone), "matrix", folded="By the tuning seed alone"),
        Drawing("What tuning and schedules give", tuple(_gains(report)), "wide", 420),
        Drawing(SIDE_BY_SIDE, tuple(side_by_side), "wide", 560),
        Drawing(AGAINST, tuple(_against(report))),
        Drawing("Stability", tuple(_tried(report))),
        *_curves(report),
    ]
    return [one for one in found if one.panels]


def _pairs(report: Report) -> Iterator[Panel]:
    """Each family of comparisons, with how much better each optimizer is than each other one."""
    metrics = {one.problem: one.metric for one in report.cells}
    families: dict[sheets.Place, list[Pair]] = {}
    for one in report.comparisons:
        up = rises(metrics[one.problem])
        better = (100.0 if up else -1.0) * one.difference
        families.setdefault(sheets.place(one), []).append(Pair(one.a, one.b, better, one.verdict != "noise"))
    for (problem, budget, schedule, seed), found in families.items():
        tuned = f", seed {seed}" if len(report.plan.seed) > 1 else ""
        kind = "points of accuracy" if rises(metrics[problem]) else "loss"
        name = slug(f"pairs-{problem}-{budget}-{schedule}-{seed}")
        yield sweeps.pairs(f"{problem}: {budget}, {schedule}{tuned} ({kind})", found, name)


def _matrices(report: Report, found: Sequence[Matrix]) -> tuple[Panel, ...]:
    several = len(report.plan.seed) > 1
    return tuple(_matrix(one, f", seed {one.tuning_seed}" if several else "") for one in found)


def _matrix(one: Matrix, seed: str) -> Panel:
    factor = 100.0 if rises(one.metric) else 1.0
    values = [[None if value is None else factor * value for value in row] for row in one.values]
    known = [abs(value) for row in values for value in row if value is not None]
    cap = CAP if rises(one.metric) else max(SHARE * (float(np.median(known)) if known else 1.0), 1e-12)
    kind = "points of accuracy" if rises(one.metric) else "loss"
    title = f"{one.problem}: {one.budget} over untuned, {one.schedule}{seed} ({kind})"
    name = slug(f"matrix-{one.problem}-{one.budget}-{one.schedule}-{one.tuning_seed}-{one.alone}")
    return sweeps.matrix(title, one.untuned, one.tuned, values, cap, name)


def _gains(report: Report) -> Iterator[Panel]:
    places = list(dict.fromkeys((one.budget, one.schedule) for one in report.gains))
    if not places:
        return
    held: dict[str, dict[tuple[str, str], float]] = {}
    for one in report.gains:
        name = f"{one.problem} {one.optimizer} {one.tuning_seed}"
        held.setdefault(name, {})[one.budget, one.schedule] = math.nan if one.gain is None else one.gain
    lines = [Line(name, np.array([known.get(place, math.nan) for place in places])) for name, known in held.items()]
    yield sweeps.gain("gain over the defaults", [", ".join(place) for place in places], lines)


def _parallel(report: Report) -> list[Panel]:
    """Of several problems a picture for each budget, schedule and seed; of one problem its budgets and schedules."""
    places = [place for place in dict.fromkeys(map(sheets.place, report.cells)) if place[1] != ONESHOT]
    single = len({place[0] for place in places}) == 1
    several = len(report.plan.seed) > 1
    groups: dict[str, list[tuple[str, sheets.Place]]] = {}
    for place in places:
        problem, budget, schedule, seed = place
        tuned = f", tuned with seed {seed}" if several else ""
        title, name = (problem, f"{budget}, {schedule}") if single else (f"{budget}, {schedule}", problem)
        groups.setdefault(title + tuned, []).append((name, place))
    return [_uprights(report, title, held) for title, held in groups.items()]


def _uprights(report: Report, title: str, places: Sequence[tuple[str, sheets.Place]]) -> Panel:
    known = by_key(report.cells)
    names = list(dict.fromkeys(one.optimizer for one in report.cells))

    def means(name: str, untuned: str | None = None) -> Values:
        """Of the cells themselves, or of the untuned ones, with this schedule or their own."""
        found = []
        for _, (problem, budget, schedule, seed) in places:
            at = (budget, schedule) if untuned is None else (ONESHOT, untuned or schedule)
            cell = known.get((problem, name, *at, seed))
            found.append(math.nan if cell is None or cell.mean is None else cell.mean)
        return np.array(found)

    lines = [line for name in names if np.isfinite((line := Line(name, means(name))).values).any()]
    marks = [Line(name, means(name, "")) for name in (ADAM, ADABOUND)]
    start = means(ADAM, CONSTANT)
    axes = []
    for column, (name, place) in enumerate(places):
        values = [float(line.values[column]) for line in (*lines, *marks)]
        axes.append(_upright(name, _metric(report.cells, place[0]), float(start[column]), values))
    cells = [known.get((place[0], ADAM, *place[1:])) for _, place in places]
    whole = all(np.isfinite(mark.values).any() for mark in marks)
    name = slug(f"parallel-{title}")
    return sweeps.parallel(title, axes, lines, palette(names), marks if whole else (), _bar(cells), name)


def _metric(cells: Sequence[Cell], problem: str) -> str:
    return next(one.metric for one in cells if one.problem == problem)


def _upright(problem: str, metric: str, start: float, values: Sequence[float]) -> Upright:
    known = [value for value in values if math.isfinite(value)]
    best, worst = (max, min) if rises(metric) else (min, max)
    high = best(known) if known else 1.0
    low = start if math.isfinite(start) and start != high else worst(known) if known else 0.0
    return Upright(problem, low, high, (shown(metric, low), shown(metric, high)))


def _bar(cells: Sequence[Cell | None]) -> tuple[Values, Values] | None:
    """One deviation below and above the mean of each cell."""
    known = [(math.nan, math.nan) if one is None or one.mean is None else (one.mean, one.std or 0.0) for one in cells]
    mean, std = np.array(known, dtype=np.float64).T
    return (mean - std, mean + std) if np.isfinite(mean).any() else None


def _against(report: Report) -> Iterator[Panel]:
    for one in report.several:
        factor = 100.0 if rises(one.metric) else 1.0

        def line(name: str, values: Sequence[float | None], factor: float = factor) -> Line:
            return Line(name, factor * np.array([math.nan if value is None else value for value in values]))

        seed = f", seed {one.tuning_seed}" if len(report.plan.seed) > 1 else ""
        title = f"{one.problem}, {one.schedule}{seed}"
        tuned = [line(name, values) for name, values in one.tuned.items()]
        measure = Measure(unit(one.metric), rises(one.metric))
        yield sweeps.against(
            title, line("untuned", one.untuned), tuned, line("median", one.median), measure, slug(f"against-{title}")
        )


def _tried(report: Report) -> Iterator[Panel]:
    groups: dict[tuple[str, str, int], dict[str, list[tuple[float, Values]]]] = {}
    metrics: dict[str, str] = {}
    for one in report.tried:
        rate = one.hyperparameters.get("lr")
        if isinstance(rate, int | float) and rate > 0 and one.values:
            factor = 100.0 if rises(one.metric) else 1.0
            ends = factor * np.array([math.nan if value is None else value for value in one.values])
            held = groups.setdefault((one.problem, one.schedule, one.tuning_seed), {})
            held.setdefault(one.optimizer, []).append((float(rate), ends))
            metrics[one.problem] = one.metric
    for (problem, schedule, seed), by_name in groups.items():
        for name, pairs in by_name.items():
            title = f"{problem}, {schedule}, seed {seed}: {name} over seeds"
            measure = Measure(unit(metrics[problem]), rises(metrics[problem]))
            pairs.sort(key=lambda pair: pair[0])
            grid = Grid(name, [rate for rate, _ in pairs], [ends for _, ends in pairs], joined=False)
            yield bench.sensitivity(title, [grid], measure, "lr", slug(f"tried-{title}"))


def _curves(report: Report) -> Iterator[Drawing]:
    """Learning curves of the settings of each place, a fold for each schedule and seed."""
    names = palette(list(dict.fromkeys(one.optimizer for one in report.cells)))
    groups: dict[tuple[str, int], dict[tuple[str, str], list[Winner]]] = {}
    for one in report.winners:
        held = groups.setdefault((one.cell.schedule, one.cell.tuning_seed), {})
        held.setdefault((one.cell.problem, one.cell.budget), []).append(one)
    for (schedule, seed), places in groups.items():
        panels = []
        for (problem, budget), found in places.items():
            metric = found[0].cell.metric
            measure = Measure(unit(metric), rises(metric), colours=names)
            lines = [_curve(one, metric) for one in found]
            title = f"{problem}, {budget}"
            panels.append(bench.curves(title, lines, measure, slug(f"curves-{title}-{schedule}-{seed}")))
        tuned = f", tuned with seed {seed}" if len(report.plan.seed) > 1 else ""
        yield Drawing(CURVES, tuple(panels), folded=f"schedule {schedule}{tuned}")


def _curve(one: Winner, metric: str) -> Curve:
    factor = 100.0 if rises(metric) else 1.0
    held = [curve for curve in one.curves.get(metric, ()) if len(curve)]
    length = max(map(len, held), default=0)
    table = np.full((len(held), length), np.nan)
    for row, curve in enumerate(held):
        table[row, : len(curve)] = curve
    with np.errstate(all="ignore"):
        mean, std = factor * table.mean(0), factor * table.std(0)
    keep = np.unique(np.append(np.arange(0, length, max(1, length // POINTS)), length - 1)) if length else np.arange(0)
    gone = np.ones(length, dtype=bool)
    gone[keep] = False
    mean[gone] = np.nan
    return Curve(one.cell.optimizer, mean, mean - std, mean + std, len(held))
