"""Runs that differ only by their seed, and what is said about them: performance, speed, sensitivity."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cockpit.core.errors import CockpitError, unknown
from cockpit.results.result import Result

Values = NDArray[np.float64]
Mode = Literal["shared", "final", "best", "most"]

MODES: dict[str, str] = {
    "shared": "by the mean after the last epoch over the seeds that all of them have",
    "final": "by the mean after the last epoch",
    "best": "by the best point of the mean curve",
    "most": "by the number of seeds, then as final",
}
# Convergence performance: what the three tuned baselines of DeepOBS reach; accuracies at least, losses at most.
TARGETS: Mapping[str, float] = {
    "quadratic_deep": 87.70315464772136,
    "mnist_vae": 73.49819796869767,
    "fmnist_2c2d": 0.9198093278634639,
    "cifar10_3c3d": 0.8283307079578206,
    "fmnist_vae": 92.97764997362836,
    "cifar100_allcnnc": 0.5256043511573971,
    "svhn_wrn164": 0.9501991843298437,
    "tolstoi_char_rnn": 0.6045863566200845,
}


def rises(metric: str) -> bool:
    """Whether more is better."""
    return metric.endswith("accuracy")


@dataclass(frozen=True)
class Curve:
    """Statistics over seeds after 0, 1, 2 ... epochs; NaN once a seed has diverged, and where no seed has got to."""

    mean: Values
    std: Values  # of the population
    median: Values
    lower: Values  # quartiles
    upper: Values
    seeds: NDArray[np.int64]  # how many got this far


@dataclass(frozen=True)
class Setting:
    """All seeds of one problem, optimizer, hyperparameters, schedule, batch size, length, variant and source."""

    results: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """The run with the lowest seed."""
        return self.results[0]

    @property
    def problem(self) -> str:
        """The name of the problem."""
        return self.first.problem

    @property
    def optimizer(self) -> str:
        """The name of the optimizer."""
        return self.first.optimizer

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """What the optimizer was given; floats rounded, as they are compared."""
        return {name: _rounded(value) for name, value in sorted(self.first.hyperparameters.items(), key=_lr_first)}

    @cached_property
    def metric(self) -> str:
        """The curve it is judged by."""
        return "test_accuracy" if any(one.metric == "test_accuracy" for one in self.results) else "test_loss"

    @property
    def target(self) -> float | None:
        """The convergence performance: what the runs say of their problem, else what is known of it."""
        said = [one.target for one in self.results if one.target is not None]
        return said[-1] if said else TARGETS.get(self.problem)

    @property
    def finished(self) -> tuple[Result, ...]:
        """The runs that came to an end, good or bad."""
        return tuple(one for one in self.results if one.complete or one.diverged is not None)

    @property
    def diverged(self) -> int:
        """How many seeds diverged."""
        return sum(one.diverged is not None for one in self.results)

    def finals(self, metric: str | None = None) -> Values:
        """The value after the last epoch of each finished seed; NaN for one that diverged."""
        return np.array([_final(one, metric or self.metric) for one in self.finished])

    def curve(self, metric: str | None = None) -> Curve:
        """Statistics over seeds, epoch by epoch."""
        metric = metric or self.metric
        runs = [one for one in self.results if one.curves.get(metric)]
        length = max((len(one.curves[metric]) for one in runs), default=0)
        if any(one.diverged is not None for one in runs):
            length = max(length, *(min(one.epochs, one.diverged) + 1 for one in runs if one.diverged is not None))
        values = np.full((len(runs), length), np.nan)
        there = np.zeros((len(runs), length), dtype=bool)
        for place, one in enumerate(runs):
            curve = one.curves[metric]
            values[place, : len(curve)] = curve
            there[place, : length if one.diverged is not None else len(curve)] = True
        return _statistics(values, there)


def settings(results: Iterable[Result]) -> list[Setting]:
    """Group runs that differ only by their seed; of one run given twice the later counts."""
    groups: dict[str, dict[int, Result]] = {}
    for one in results:
        groups.setdefault(_identity(one), {})[one.seed] = one
    return [Setting(tuple(group[seed] for seed in sorted(group))) for group in groups.values()]


def performance(setting: Setting, metric: str | None = None) -> float:
    """Mean over seeds of the test metric after the last epoch; NaN if a seed diverged or none has finished."""
    finals = setting.finals(metric)
    return float(np.mean(finals)) if len(finals) else math.nan


def spread(setting: Setting, metric: str | None = None) -> float:
    """Standard deviation (of the population) over seeds of the same."""
    finals = setting.finals(metric)
    return float(np.std(finals)) if len(finals) and np.isfinite(finals).all() else math.nan


def speed(setting: Setting, target: float | None = None) -> float:
    """Mean over finished seeds of the first epoch at which the test metric reaches the convergence performance.

    A seed that never does counts as its number of epochs plus one, as published. NaN where no target is known.
    """
    target = setting.target if target is None else target
    if target is None or not setting.finished:
        return math.nan
    return float(np.mean([_reached(one, setting.metric, target) for one in setting.finished]))


def ranked(found: Iterable[Setting], mode: Mode = "shared", metric: str | None = None) -> list[Setting]:
    """Settings of one problem, the best first.

    They are judged by the validation metric where all of them have it, otherwise by the test metric.
    """
    if mode not in MODES:
        raise unknown("mode", mode, MODES)
    found = list(found)
    if len({one.problem for one in found}) > 1:
        raise CockpitError("settings of several problems cannot be ranked together; give those of one problem")
    metric = metric or judge(found)
    sign = -1 if rises(metric) else 1
    return sorted(found, key=_orders(sign, metric, shared_seeds(found))[mode])


def shared_seeds(found: Iterable[Setting]) -> tuple[int, ...]:
    """The seeds over which settings can be compared: finished in all of them, or in all that share the usual seed.

    The usual seed is the one that most settings have, so that a single setting with a seed of its own spoils nothing.
    """
    held = [{one.seed for one in setting.finished} for setting in found]
    counts = Counter(seed for seeds in held for seed in seeds)
    if not counts:
        return ()
    usual = min(seed for seed, count in counts.items() if count == max(counts.values()))
    return tuple(sorted(set.intersection(*(seeds for seeds in held if usual in seeds))))


def judge(found: Sequence[Setting]) -> str:
    """The metric that settings are chosen by: on the validation set where all have one, otherwise on the test set."""
    if not found:
        return "test_loss"
    held_out = found[0].metric.replace("test", "valid")
    known = all(one.curves.get(held_out) for setting in found for one in setting.results)
    return held_out if known else found[0].metric


def best_setting(results: Iterable[Result], problem: str, optimizer: str, mode: Mode = "shared") -> Setting:
    """The best setting of an optimizer on a problem."""
    results = list(results)
    there = [one for one in results if one.problem == problem]
    if not there:
        raise unknown("problem", problem, {one.problem for one in results})
    chosen = settings(one for one in there if one.optimizer == optimizer)
    if not chosen:
        raise unknown(f"optimizer on {problem}", optimizer, {one.optimizer for one in there})
    return ranked(chosen, mode)[0]


@dataclass(frozen=True)
class Point:
    """A setting as a point of a sensitivity curve."""

    value: float  # of the hyperparameter
    setting: Setting
    ends: Values  # of all finished seeds, by the test metric; NaN: diverged, or a loss worse than before training

    @property
    def mean(self) -> float:
        """Over the seeds; NaN if one of them failed or none has finished."""
        return float(np.mean(self.ends)) if len(self.ends) else math.nan


def sensitivity(results: Iterable[Result], problem: str, optimizer: str, name: str = "lr") -> list[Point]:
    """How runs end against one hyperparameter, in the order of its values; others may vary too, as in random search."""
    chosen = settings(one for one in results if (one.problem, one.optimizer) == (problem, optimizer))
    held = [one for one in chosen if isinstance(one.hyperparameters.get(name), int | float)]
    if chosen and not held:
        raise unknown(f"hyperparameter of {optimizer} with numbers", name, chosen[0].hyperparameters)
    points = [Point(float(one.hyperparameters[name]), one, _bearable(one)) for one in held]
    return sorted(points, key=lambda point: point.value)


def _bearable(setting: Setting) -> Values:
    """The ends of a setting's runs; NaN where training has made a loss worse than it was."""
    ends = setting.finals()
    if rises(setting.metric):
        return ends
    begins = np.array([(one.curves.get(setting.metric) or [math.nan])[0] for one in setting.finished])
    return np.where(ends > begins, np.nan, ends)


def joined(points: Sequence[Point], name: str) -> bool:
    """Whether points differ by that hyperparameter alone, so that a line through them means something."""
    rest = [{**one.setting.hyperparameters, name: None} for one in points]
    once = len({one.value for one in points}) == len(points)  # no other schedule, batch size, variant ...
    return once and all(held == rest[0] for held in rest)


def having(results: Iterable[Result], problem: str, name: str) -> list[str]:
    """The optimizers on a problem that have a hyperparameter of that name; an error if results have, but none it."""
    there = [one for one in results if one.problem == problem]
    found = {one.optimizer for one in there if isinstance(one.hyperparameters.get(name), int | float)}
    if there and not found:
        raise unknown(f"hyperparameter on {problem}", name, {key for one in there for key in one.hyperparameters})
    return sorted(found, key=str.lower)


def _identity(one: Result) -> str:
    rounded = {name: _rounded(value) for name, value in one.hyperparameters.items()}
    fixed = [one.problem, one.optimizer, one.schedule, one.batch_size, one.epochs, one.source]
    fixed += [one.code, one.rule, one.problem_code]
    return json.dumps([*fixed, rounded, one.variant], sort_keys=True, default=str)


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _lr_first(item: tuple[str, Any]) -> tuple[bool, str]:
    return item[0] != "lr", item[0]


def _final(one: Result, metric: str) -> float:
    curve = one.curves.get(metric)
    return curve[-1] if curve and one.diverged is None else math.nan


def _reached(one: Result, metric: str, target: float) -> int:
    met = [value >= target if rises(metric) else value <= target for value in one.curves.get(metric, ())]
    return met.index(True) if True in met else one.epochs + 1


def _orders(sign: int, metric: str, seeds: Sequence[int]) -> dict[str, Callable[[Setting], Any]]:
    """The key of each mode: less is better, NaN is last."""

    def final(setting: Setting) -> float:
        score = performance(setting, metric)
        return sign * score if math.isfinite(score) else math.inf

    def shared(setting: Setting) -> tuple[Any, ...]:
        ends = {one.seed: _final(one, metric) for one in setting.finished}
        if not seeds or any(seed not in ends for seed in seeds):
            return True, *most(setting)  # it cannot be compared with the others
        score = float(np.mean([ends[seed] for seed in seeds]))
        return False, sign * score if math.isfinite(score) else math.inf, *most(setting)

    def most(setting: Setting) -> tuple[int, float]:
        return -len(setting.finished), final(setting)

    def best(setting: Setting) -> float:
        mean = sign * setting.curve(metric).mean
        return float(np.min(mean[np.isfinite(mean)], initial=math.inf))

    return {"shared": shared, "final": final, "best": best, "most": most}


def _statistics(values: Values, there: NDArray[np.bool_]) -> Curve:
    """Over the seeds that are there; a diverged one is there as NaN, so that nothing is averaged over survivors."""
    columns: list[tuple[float, ...]] = []
    for place in range(values.shape[1]):
        column = values[there[:, place], place]
        if not len(column) or not np.isfinite(column).all():
            columns.append((math.nan,) * 5)
        else:
            quartiles = np.percentile(column, [50, 25, 75])
            columns.append((float(column.mean()), float(column.std()), *map(float, quartiles)))
    mean, std, median, lower, upper = np.array(columns).reshape(-1, 5).T
    return Curve(mean, std, median, lower, upper, there.sum(0))
