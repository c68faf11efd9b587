"""Tables of a report, before they are written in any format: what stands in each place, and how good it is."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from cockpit.results.published import DRIFTING, IMPOSSIBLE
from cockpit.results.summary import rises
from cockpit.results.sweeps.cells import Cell
from cockpit.results.sweeps.comparisons import Comparison
from cockpit.results.sweeps.gains import Usual
from cockpit.results.sweeps.report import Report
from cockpit.results.sweeps.stability import Tried
from cockpit.results.tables import MISSING, number, shown

MARKS = {DRIFTING: "*", IMPOSSIBLE: "**"}  # of published figures
MET = "="  # a published figure that is met to the last printed digit


@dataclass(frozen=True, slots=True)
class Entry:
    """One place of a table."""

    text: str
    grade: int | None = None  # how good from 0 to 100, among those of its column
    best: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()
    words: int = 1  # columns of words in front of the numbers


Place = tuple[str, str, str, int]  # problem, budget, schedule, tuning seed


@dataclass(frozen=True, slots=True)
class Layout:
    """Which places stand side by side: those of one problem by budget, those of several by problem."""

    title: str
    columns: tuple[tuple[str, Place], ...]


def layouts(report: Report) -> list[Layout]:
    """How cells are laid out in tables, in the order of the plan."""
    places = list(dict.fromkeys(map(place, report.cells)))
    single = len({problem for problem, *_ in places}) == 1
    groups: dict[tuple[str | None, str | None, str, int], list[tuple[str, Place]]] = {}
    for one in places:
        problem, budget, schedule, seed = one
        if single:
            groups.setdefault((problem, None, schedule, seed), []).append((budget, one))
        else:
            groups.setdefault((None, budget, schedule, seed), []).append((problem, one))
    several = len(report.plan.seed) > 1
    return [Layout(_titled(*key, several), tuple(columns)) for key, columns in groups.items()]


def place(one: Cell | Comparison) -> Place:
    """Where a cell or a comparison belongs."""
    return one.problem, one.budget, one.schedule, one.tuning_seed


def performance(report: Report, layout: Layout, published: bool = False) -> Sheet:
    """Mean and deviation of the test metric: a row for each optimizer."""
    held = {(place(one), one.optimizer): one for one in report.cells}
    wanted = {at for _, at in layout.columns}
    cells = [one for one in report.cells if place(one) in wanted]
    optimizers = list(dict.fromkeys(one.optimizer for one in cells))
    header = ["optimizer"]
    columns: list[list[Entry]] = []
    for title, at in layout.columns:
        column = [held.get((at, optimizer)) for optimizer in optimizers]
        metric = next(one.metric for one in column if one is not None)
        header.append(f"{title} ({'%' if rises(metric) else 'loss'})")
        columns.append(_graded(column, metric))
        if published and any(one is not None and one.published for one in column):
            header.append("published")
            columns.append([_figure(one) for one in column])
    rows = tuple((Entry(name), *(column[row] for column in columns)) for row, name in enumerate(optimizers))
    return Sheet(layout.title, tuple(header), rows, tuple(_notes(cells, published)))


def verdicts(report: Report, layout: Layout) -> Sheet | None:
    """How many optimizers each one is better than, worse than, and not to be told from."""
    families: dict[Place, list[Comparison]] = {}
    for one in report.comparisons:
        families.setdefault(place(one), []).append(one)
    columns = [(title, at) for title, at in layout.columns if at in families]
    if not columns:
        return None
    counts: dict[str, dict[Place, Counter[str]]] = {}
    for at in (at for _, at in columns):
        for one in families[at]:
            counts.setdefault(one.a, {}).setdefault(at, Counter())[one.verdict] += 1
            counts.setdefault(one.b, {}).setdefault(at, Counter())[_OTHER.get(one.verdict, "noise")] += 1

    rows = tuple((Entry(name), *(Entry(_counted(held.get(at))) for _, at in columns)) for name, held in counts.items())
    every = [one for _, at in columns for one in families[at]]
    seeds = sorted({one.n for one in every})
    common = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    sure = sum(one.verdict != "noise" for one in every)
    notes = (
        "better than / worse than / not to be told from so many of the others",
        f"{sure} of {len(every)} pairs differ: paired t test over {common} seeds, Holm at 0.002",
    )
    return Sheet(layout.title, ("optimizer", *(title for title, _ in columns)), rows, notes)


def _counted(counts: Counter[str] | None) -> str:
    return MISSING if counts is None else " / ".join(str(counts[kind]) for kind in ("better", "worse", "noise"))


_OTHER = {"better": "worse", "worse": "better"}


def _titled(problem: str | None, budget: str | None, schedule: str, seed: int, several: bool) -> str:
    named = [problem or f"budget {budget}", f"schedule {schedule}"]
    return ", ".join(named + ([f"tuned with seed {seed}"] if several else []))


def usual(report: Report) -> Sheet | None:
    """The median gain over the defaults: a row for each budget, a column for each schedule."""
    found = {(one.budget, one.schedule): one for one in report.usual}
    if not found:
        return None
    budgets, schedules = report.plan.budgets, report.plan.schedules
    rows = tuple(
        (Entry(budget), *(Entry(_gain(found.get((budget, name)))) for name in schedules)) for budget in budgets
    )
    note = "median over problems and optimizers (quartiles) of the gain over the defaults with a constant schedule"
    return Sheet("gain of tuning and schedules, relative", ("budget", *schedules), rows, (note,))


def several(report: Report) -> list[Sheet]:
    """What is to be expected of the best of m runs: m untuned optimizers, or m settings of one."""
    found = []
    for one in report.several:
        rows = tuple(
            (
                Entry(str(place + 1)),
                Entry(_number(one.metric, one.untuned[place])),
                Entry(_number(one.metric, one.median[place])),
                Entry(_number(one.metric, _best(one.metric, [held[place] for held in one.tuned.values()]))),
            )
            for place in range(one.optimizers)
        )
        seed = f", seed {one.tuning_seed}" if len(report.plan.seed) > 1 else ""
        header = ("runs", "so many untuned optimizers", "so many settings of one: median", "the best optimizer")
        note = "expected test value of the best by validation, over all subsets; by the tuning seed alone"
        found.append(Sheet(f"{one.problem}, schedule {one.schedule}{seed}", header, rows, (note,), words=0))
    return found


def winners(report: Report, tuned: bool = True) -> Sheet | None:
    """The settings that won: where they lie, how soon they are good, how the tuning went."""
    rows = []
    for one in report.winners:
        cell = one.cell
        if tuned and cell.trial is None:
            continue
        place = f"{cell.budget}, {cell.schedule}" + (f", seed {cell.tuning_seed}" if len(report.plan.seed) > 1 else "")
        setting = ", ".join(f"{name} {number(value)}" for name, value in (cell.hyperparameters or {}).items())
        texts = [cell.problem, cell.optimizer, place, setting, "; ".join(one.edges)]
        texts += [MISSING if one.speed is None else f"{one.speed:.1f}", _share(one.better), _share(one.diverged)]
        cost = report.costs.get(cell.optimizer)
        texts += [MISSING if one.speed is None or cost is None else f"{one.speed * cost:.1f}"] if report.costs else []
        rows.append(tuple(map(Entry, texts)))
    if not rows:
        return None
    header = ["problem", "optimizer", "cell", "setting", "at an edge of its box", "speed", "better", "diverged"]
    header += ["speed × cost"] if report.costs else []
    notes = (
        "speed: epochs to the target, one more than there were where it is never reached",
        "better, diverged: share of the settings tried that beat the defaults on validation data, that diverged",
    )
    return Sheet("settings that won", tuple(header), tuple(rows), notes, words=5)


def facts(report: Report) -> list[str]:
    """What is to be known of the whole: how much there is, what is missing, what failed, what it cost."""
    plan, cells = report.plan, report.cells
    known, missing = [one for one in cells if one.values], [one for one in cells if one.missing]
    said = [f"{len(known)} of {len(cells)} cells have results"]
    beside = len(cells) - len(report.reading.cells)
    said += [f"{counted(beside, 'cell')} of these from {counted(len(report.others), 'other sweep')}"] if beside else []
    if missing:
        left = sum(one.missing for one in missing)
        said.append(f"{counted(left, 'run')} of {counted(len(missing), 'cell')} still to do")
    if lost := [one for one in known if one.diverged]:
        counts = Counter((one.optimizer, one.budget, one.schedule) for one in lost for _ in range(one.diverged))
        most = ", ".join(f"{' '.join(key)} {count}" for key, count in counts.most_common(5))
        said.append(f"{counted(counts.total(), 'seed')} diverged in {counted(len(lost), 'cell')}, most of {most}")
    if failed := report.reading.failed():
        which = ", ".join(f"{name} {count}" for name, count in failed.most_common(5))
        are = "is" if failed.total() == 1 else "are"
        said.append(f"{counted(failed.total(), 'run')} failed and {are} left out: {which}")
    for task in plan.problems:
        seconds = report.reading.seconds(task.name)
        said += [] if seconds is None else [f"a run of {task.name} takes {seconds:.3g} s (median)"]
    for cell, kinds in report.reading.machines():
        said.append(f"{_place(cell)} has runs of {kinds} kinds of machine")
    return said


def counted(number: int, thing: str) -> str:
    """So many of a thing, in words."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def refused(report: Report) -> Sheet | None:
    """Cells of baselines that are not compared; those with the same reason together."""
    groups: dict[tuple[str, str, str, str, str], list[str]] = {}
    for one in report.refused:
        groups.setdefault((one.store, one.problem, one.budget, one.schedule, one.reason), []).append(one.optimizer)
    if not groups:
        return None
    rows = [
        tuple(map(Entry, (store, problem, f"{budget}, {schedule}", ", ".join(dict.fromkeys(names)), reason)))
        for (store, problem, budget, schedule, reason), names in groups.items()
    ]
    header = ("sweep", "problem", "cell", "optimizers", "why")
    return Sheet("results of other sweeps that are not compared", header, tuple(rows), words=5)


def retuned(report: Report) -> Sheet | None:
    """Means under each tuning seed."""
    if not report.retuned:
        return None
    rows = [
        tuple(
            map(
                Entry,
                (
                    *(one.problem, one.optimizer, f"{one.budget}, {one.schedule}"),
                    *(spread(one.metric, mean, std) for mean, std in zip(one.means, one.stds, strict=True)),
                    _number(one.metric, one.shift),
                ),
            )
        )
        for one in report.retuned
    ]
    header = ("problem", "optimizer", "cell", *(f"seed {seed}" for seed in report.plan.seed), "apart")
    return Sheet("stability under another tuning seed", header, tuple(rows), words=3)


def tried(report: Report) -> Sheet | None:
    """How every setting that was tried did over its seeds, an optimizer a row."""
    groups: dict[tuple[str, str, str, int], list[Tried]] = {}
    for one in report.tried:
        groups.setdefault((one.problem, one.optimizer, one.schedule, one.tuning_seed), []).append(one)
    if not groups:
        return None
    rows = []
    for (problem, optimizer, schedule, seed), held in groups.items():
        known = [one for one in held if one.seeds]
        some = sum(0 < one.diverged < one.seeds for one in known)
        every = sum(one.diverged == one.seeds for one in known)
        stds = [one.std for one in known if one.std is not None]
        usual = _deviation(known[0].metric, median(stds)) if stds else MISSING
        texts = (problem, optimizer, schedule, str(seed), str(len(known)), str(every), str(some), usual)
        rows.append(tuple(map(Entry, texts)))
    header = ("problem", "optimizer", "schedule", "seed", "settings", "diverge always", "sometimes", "median ±")
    note = "over the seeds of every setting that was tried; those that diverge sometimes are in the danger zone"
    return Sheet("stability over seeds", header, tuple(rows), (note,), words=3)


def _deviation(metric: str, value: float) -> str:
    return f"{(100 if rises(metric) else 1) * value:.2g}"


def spread(metric: str, mean: float | None, std: float | None) -> str:
    """Mean and deviation with the same decimals, accuracies in per cent; a mark where there is none."""
    if mean is None:
        return MISSING
    text = shown(metric, mean)
    if std is None:
        return text
    value = (100 if rises(metric) else 1) * std
    decimals = len(text.partition(".")[2]) if "e" not in text else 0
    whole = decimals and (value >= 0.5 * 10**-decimals or not value)
    return f"{text} ± {value:.{decimals}f}" if whole else f"{text} ± {value:.2g}"


def _graded(cells: Sequence[Cell | None], metric: str) -> list[Entry]:
    means = [one.mean if one is not None and one.mean is not None else math.nan for one in cells]
    finite = [value for value in means if math.isfinite(value)]
    top = (max if rises(metric) else min)(finite, default=0.0)
    reach = _reach([abs(value - top) for value in finite])
    found = []
    for one, mean in zip(cells, means, strict=True):
        grade = None
        if math.isfinite(mean) and reach:
            grade = round(100 * max(0.0, 1 - abs(mean - top) / reach))
        found.append(Entry(_outcome(one), grade, math.isfinite(mean) and mean == top))
    return found


def _reach(behind: Sequence[float]) -> float:
    """How far behind the best is as bad as anything: three times as far as the median, or the last of all."""
    if not behind:
        return 0.0
    usual = median(behind)
    return min(3 * usual, max(behind)) or max(behind)


def _outcome(cell: Cell | None) -> str:
    if cell is None:
        return MISSING
    if cell.diverged:
        return f"diverged ({cell.diverged} of {len(cell.values)})"
    if not cell.values:
        return f"{MISSING} ({cell.missing} to do)" if cell.missing else MISSING
    return spread(cell.metric, cell.mean, cell.std) + (f" ({cell.missing} to do)" if cell.missing else "")


def _figure(cell: Cell | None) -> Entry:
    if cell is None or cell.published is None:
        return Entry(MISSING)
    known = cell.published
    met = f" {MET}" if known["met"] else ""
    text = (
        f"{spread(cell.metric, known['mean'], known['std'])} [{known['table']}{MARKS.get(known['caveat'] or '', '')}]"
    )
    return Entry(text + met)


def _notes(cells: Iterable[Cell], published: bool) -> list[str]:
    if not published:
        return []
    figures = [(one, one.published) for one in cells if one.published is not None]
    found = [f"{mark} {caveat}" for caveat, mark in MARKS.items() if any(one["caveat"] == caveat for _, one in figures)]
    found += [f"{MET} met to the last printed digit"] if any(one["met"] for _, one in figures) else []
    odd = {one["budget"] for cell, one in figures if one["budget"] != cell.budget}
    found += [f"figures of the budget {name}: the study's stored runs of it have the draws of this one" for name in odd]
    whys: dict[str, list[str]] = {}
    for cell, one in figures:
        if one["why"]:
            whys.setdefault(one["why"], []).append(cell.optimizer)
    return found + [f"not met, {', '.join(dict.fromkeys(names))}: {why}" for why, names in whys.items()]


def _gain(one: Usual | None) -> str:
    return MISSING if one is None else f"{100 * one.median:+.1f}% ({100 * one.lower:+.1f} to {100 * one.upper:+.1f})"


def _number(metric: str, value: float | None) -> str:
    return MISSING if value is None else shown(metric, value)


def _best(metric: str, values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return None if not known else max(known) if rises(metric) else min(known)


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.0f}%"


def _place(cell: Cell) -> str:
    return f"{cell.problem}, {cell.optimizer}, {cell.budget}, {cell.schedule}"
