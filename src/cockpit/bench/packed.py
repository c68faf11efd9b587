"""Runs on disk that go in step: a pack trains and judges them, each keeps its own records, result and state."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from cockpit.bench import precision
from cockpit.bench.live import Live
from cockpit.bench.pack import Pack
from cockpit.bench.packs import together
from cockpit.bench.plan import Plan
from cockpit.bench.progress import Progress
from cockpit.bench.run import Run
from cockpit.problems._base import Splits
from cockpit.results.result import Result

MOST = 16  # runs in step: each has records open


def groups(plans: Sequence[Plan]) -> list[list[Plan]]:
    """Plans that may go in step; what must go alone is in no group."""
    known: dict[Any, list[Plan]] = {}
    for plan in plans:
        if (key := together(plan)) is not None:
            known.setdefault(key, []).append(plan)
    return [same[begin : begin + MOST] for same in known.values() for begin in range(0, len(same), MOST)]


class Packed:
    """Runs of one key, all at the same epoch."""

    def __init__(self, runs: Sequence[Run], splits: Splits, progress: Progress) -> None:
        self._runs, self._progress, self._plan = list(runs), progress, runs[0].plan
        self._splits = precision.in_numbers(splits, self._plan.dtype)
        self._errors: dict[int, BaseException] = {}  # of runs that raised, by place

    def go(self, state: dict[str, Any] | None = None) -> list[Result]:
        """Train all runs from the beginning, or a single one from a state."""
        plan, runs, steps = self._plan, self._runs, self._splits.train.steps(self._plan.batch_size)
        if state is not None:
            (alone,) = runs
            alone.restore(state)
        first = runs[0].epochs_done
        self._progress.begin(self._title(), plan.epochs * steps, first * steps)
        self._pack = Pack(runs, self._splits)
        for place, run in enumerate(runs):
            run.fetch = lambda place=place: self._pack.keep(place)
        with ExitStack() as stack:
            rooms = [stack.enter_context(ExitStack()) for _ in runs]
            lives = [room.enter_context(run.live(None, None, first)) for room, run in zip(rooms, runs, strict=True)]
            if state is not None:
                runs[0].log_again(lives[0])
            else:
                self._judge(lives, 0)
            for epoch in range(first, plan.epochs):
                if not self._going(rooms):
                    break
                self._train(lives, epoch)
                self._judge(lives, epoch + 1)
            self._going(rooms)
        for place, run in enumerate(runs):
            if place not in self._errors:
                self._progress.end(run.end())
        for error in self._errors.values():
            raise error
        return [run.result for run in runs]

    def _title(self) -> str:
        seeds = sorted(run.plan.seed for run in self._runs)
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        return f"{self._plan.title} {which}"

    def _going(self, rooms: Sequence[ExitStack]) -> list[int]:
        """Which runs go on; the records of the others are closed, whatever becomes of these."""
        for place, (run, room) in enumerate(zip(self._runs, rooms, strict=True)):
            error = self._errors.get(place)
            if error is not None:
                room.__exit__(type(error), error, error.__traceback__)
            elif run.result.complete:
                room.close()
        over = [place for place, run in enumerate(self._runs) if run.result.complete]
        self._pack.over(over)
        return [place for place in range(len(self._runs)) if place not in over and place not in self._errors]

    def _train(self, lives: Sequence[Live], epoch: int) -> None:
        begin = time.perf_counter()
        losses = self._pack.train(epoch, tick=self._progress.step)
        self._errors = self._pack.failed()
        going = [place for place, run in enumerate(self._runs) if not (run.result.complete or place in self._errors)]
        share = (time.perf_counter() - begin) / max(len(going), 1)
        for place in going:
            for loss in losses[place]:
                lives[place].stepped(loss)
            self._runs[place].trained(epoch, losses[place], share)

    def _judge(self, lives: Sequence[Live], epoch: int) -> None:
        values = {metric: column.tolist() for metric, column in self._pack.judge().items()}
        for place, run in enumerate(self._runs):
            if not (run.result.complete or place in self._errors):
                found = {metric: column[place] for metric, column in values.items()}
                run.judged(epoch, found if run.result.diverged is None else None, lives[place])
        lasting = [run.result.curves for run in self._runs if run.result.diverged is None and run.result.curves]
        if lasting:
            middle = {metric: [sum(curves[metric][-1] for curves in lasting) / len(lasting)] for metric in lasting[0]}
            self._progress.epoch(epoch, replace(self._runs[0].result, curves=middle))
