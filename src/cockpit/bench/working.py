"""What ``cockpit bench run`` does: train with progress, then a short table."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from cockpit import problems
from cockpit.bench.optimizers import choose, hyperparameter
from cockpit.bench.plan import meant
from cockpit.bench.progress import shown
from cockpit.bench.runner import bench
from cockpit.core.errors import CockpitError, unknown
from cockpit.plots.console import console
from cockpit.problems._base import Place, Variant
from cockpit.problems.data.fetch import default_place
from cockpit.results.result import Result

GROUPS = ("small", "large", "modern", "all")


def work(
    problem: str,
    seeds: Sequence[int],
    *,
    optimizer: str,
    lr: float | None,
    settings: Iterable[str],
    data_dir: Path | None,
    no_download: bool,
    order: str,
    no_validation: bool,
    hessian: int,
    label_leak: bool,
    not_held_out: bool,
    shuffled_eval: bool,
    cut: bool,
    whole_eval: bool,
    amp: str | None,
    again: bool,
    **options: Any,
) -> None:
    """Train a problem, or all of a group, with every seed; what cannot be trained does not stop the rest of a group."""
    names = chosen(problem)
    choice = choose(optimizer, **hyperparameters(lr, settings))
    variant = Variant(not no_validation, order, hessian, label_leak, not not_held_out, shuffled_eval, cut, whole_eval)
    place = Place(data_dir or default_place().folder, download=not no_download)
    done: list[list[Result]] = []
    failed: list[str] = []
    with shown(Console(stderr=True)) as progress:
        given = {"place": place, "amp": amp or False, "resume": not again, "progress": progress, **options}
        for name in names:
            own = variant if len(names) == 1 else meant(variant, name)
            try:
                done.append(bench(name, choice, seeds, variant=own, **given))
            except CockpitError as error:
                failed.append(str(error) if len(names) == 1 else f"{name} was left out: {error}")
    if done:
        console().print(table(done))
    if failed:
        raise CockpitError("\n".join(failed))


def chosen(problem: str) -> tuple[str, ...]:
    """The problems that a name means."""
    if problem in GROUPS:
        return problems.group(problem)
    if problem not in problems.names() and ":" not in problem:
        raise unknown("problem", problem, [*problems.names(), *GROUPS, "package.module:problem"])
    return (problem,)


def hyperparameters(lr: float | None, settings: Iterable[str]) -> dict[str, Any]:
    """What ``--lr`` and ``--set`` say."""
    found: dict[str, Any] = {} if lr is None else {"lr": lr}
    for name, value in map(hyperparameter, settings):
        if name in found:
            raise CockpitError(f"{name} is given twice, as {found[name]!r} and {value!r}; give it once")
        found[name] = value
    return found


def table(groups: Iterable[Sequence[Result]]) -> Table:
    """Final and best test metric, mean and deviation over seeds."""
    made = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("problem", "optimizer", "metric", "final", "best", "seeds"):
        number = heading in ("final", "best", "seeds")  # which is never cut; words are folded where there is no room
        made.add_column(heading, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for results in groups:
        first = results[0]
        lasting = [one for one in results if one.diverged is None]
        curves = [one.curves[first.metric] for one in lasting if one.curves]
        best = max if first.metric == "test_accuracy" else min
        said = str(len(results))
        if len(lasting) < len(results):
            said += f" ({len(results) - len(lasting)} diverged)"
        final, top = [curve[-1] for curve in curves], [best(curve) for curve in curves]
        metric = first.metric.replace("_", " ")
        percent = first.metric == "test_accuracy"
        made.add_row(first.problem, first.optimizer, metric, _spread(final, percent), _spread(top, percent), said)
    return made


def _spread(values: Sequence[float], percent: bool) -> str:
    """Mean and population deviation."""
    if not values:
        return "-"
    mean, deviation = float(np.mean(values)), float(np.std(values))
    text = f"{mean:.2%}" if percent else f"{mean:.5g}"
    if len(values) == 1:
        return text
    return f"{text} ± {deviation:.2%}" if percent else f"{text} ± {deviation:.2g}"
