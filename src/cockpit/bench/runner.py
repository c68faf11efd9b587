"""Train a problem with an optimizer: judged after every epoch, recorded live, continued where it stopped."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from cockpit.bench import checkpoint, modes, precision
from cockpit.bench.evaluation import check_sizes
from cockpit.bench.folders import default_folder
from cockpit.bench.optimizers import Choice
from cockpit.bench.packed import Packed, groups
from cockpit.bench.packs import together
from cockpit.bench.plan import Chosen, Plan, make_plan
from cockpit.bench.progress import Progress, Silent
from cockpit.bench.randomness import TRAINING, seed_phase, unchanged
from cockpit.bench.run import Run, on_device, timed
from cockpit.bench.seeds import epoch_generators, model_seed
from cockpit.bench.training import Training
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Problem, Splits, Variant
from cockpit.problems.data.fetch import default_place
from cockpit.quantities import resolve
from cockpit.results import folder as results
from cockpit.results.result import Result


@dataclass
class Session:
    """Runs of one problem on one device; their data are loaded once, when the first of them needs them."""

    problem: Problem
    variant: Variant
    place: Place | None
    device: torch.device
    out: Path
    watch: str | None = None
    every: int | None = None
    resume: bool = True
    progress: Progress = field(default_factory=Silent)

    @cached_property
    def splits(self) -> Splits:
        """The data, on the device."""
        return on_device(self.problem.data(self.place or default_place(), self.variant), self.device)

    def run(self, plan: Plan) -> Result:
        """Carry out a plan, or what is left of it."""
        folder = plan.folder(self.out)
        found = self._finished(plan, folder)
        if found is not None:
            return found
        splits = self.splits  # before anything is made on disk: they may be missing, or too few
        check_sizes(splits, plan.batch_size)
        with checkpoint.alone(folder):
            found = self._finished(plan, folder)  # by who held the folder until now
            if found is not None:
                return found
            if not self.resume:
                checkpoint.clear(folder)
            state = checkpoint.load(folder)
            if state is not None:
                checkpoint.fit(folder, state["settings"], plan.settings())
            with unchanged(self.device):
                if self._packs and together(plan) is not None:
                    alone = Run(plan, folder, splits, self.device, Silent())
                    return Packed([alone], splits, self.progress).go(state)[0]
                return Run(plan, folder, splits, self.device, self.progress).go(state, self.watch, self.every)

    def run_all(self, plans: Sequence[Plan]) -> list[Result]:
        """Carry out several plans, in step where that is possible, with the same numbers; else one after the other."""
        done: dict[int, Result] = {}
        if self._packs and len({plan.seed for plan in plans}) == len(plans):
            for group in groups([plan for plan in plans if self._begins(plan)]):
                done |= self._run_group(group)
        return [done.get(plan.seed) or self.run(plan) for plan in plans]

    @property
    def _packs(self) -> bool:
        """Whether runs may be trained as packs: what is watched runs as the user's own training does."""
        return self.watch is None and self.device.type == "cpu"

    def _begins(self, plan: Plan) -> bool:
        """Whether nothing was done of a plan, or nothing of that counts."""
        folder = plan.folder(self.out)
        return not (self.resume and checkpoint.begun(folder))

    def _run_group(self, plans: Sequence[Plan]) -> dict[int, Result]:
        """Carry out plans in step, by seed; none of them where another process has begun one."""
        splits = self.splits
        check_sizes(splits, plans[0].batch_size)
        with ExitStack() as stack:
            for plan in plans:
                stack.enter_context(checkpoint.alone(plan.folder(self.out)))
            if not all(map(self._begins, plans)):  # who held a folder until now has used it
                return {}
            stack.enter_context(unchanged(self.device))
            runs = [Run(plan, plan.folder(self.out), splits, self.device, Silent()) for plan in plans]
            for plan in plans:
                checkpoint.clear(plan.folder(self.out))
            return {result.seed: result for result in Packed(runs, splits, self.progress).go()}

    def _finished(self, plan: Plan, folder: Path) -> Result | None:
        found = checkpoint.read_result(folder) if self.resume else None
        if found is None or not found.complete:
            return None
        checkpoint.fit(folder, {key: getattr(found, key) for key in plan.settings()}, plan.settings())
        if found.target != plan.problem.target:
            found = replace(found, target=plan.problem.target)
            results.write(found, folder)
        self.progress.end(f"{folder}: already there; --again trains it anew")
        return found


def train(problem: str | Problem, optimizer: Chosen, *, seed: int = 42, **options: Any) -> Result:
    """Train once, and return how well it did after each epoch; options as in :func:`bench`."""
    return bench(problem, optimizer, [seed], **options)[0]


def bench(
    problem: str | Problem,
    optimizer: Chosen,
    seeds: Iterable[int] = (42, 43, 44),
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    schedule: Any = "constant",
    variant: Variant | None = None,
    watch: str | None = None,
    every: int | None = None,
    out: Path | str | None = None,
    place: Place | None = None,
    device: str | torch.device | None = None,
    amp: bool | str = False,
    compile: bool | str = False,
    l2: float | None = None,
    log_interval: int = 10,
    dtype: str = "float32",
    resume: bool = True,
    progress: Progress | None = None,
    **hyperparameters: Any,
) -> list[Result]:
    """Train with several seeds: one run after the other, small ones in step, with the same numbers either way.

    Args:
        problem: Its name, or a problem of your own.
        optimizer: A name, an optimizer class, a function that makes one, or a choice with its hyperparameters.
        seeds: One run each; everything random follows from its seed.
        epochs: Otherwise the problem's own.
        batch_size: Otherwise the problem's own.
        schedule: Of the learning rate: a name, a function epoch -> factor, or a function that makes one of torch's
            schedulers of an optimizer, which steps once an epoch.
        variant: How the problem is set up.
        watch: A preset of quantities to measure: ``"economy"``, ``"business"``, ``"full"``; otherwise only the loss is.
        every: Measure every so many steps; otherwise as often as 5% of the training time allow.
        out: The folder of runs, otherwise ``runs/bench``; a run lies in ``<problem>/<optimizer>/<settings>/seed_<S>``.
        place: Where the data are.
        device: Otherwise a GPU if there is one.
        amp: Mixed precision, ``"bf16"`` (or True) or ``"fp16"``.
        compile: Compile the model; a text names a backend.
        l2: Factor of the L2 term, otherwise the problem's own.
        log_interval: Steps from one logged mini-batch loss to the next, within each epoch.
        dtype: Of parameters and data, ``"float32"`` or ``"float64"``.
        resume: Go on where a run stopped, and take one that is complete as it is; False: begin again.
        progress: Who is told how far it is.
        hyperparameters: Of the optimizer, ``lr=0.1`` say.
    """
    where = precision.choose_device(device)
    _check(seeds, watch, every, place)
    plans = [
        make_plan(
            problem,
            optimizer,
            seed=seed,
            epochs=epochs,
            batch_size=batch_size,
            schedule=schedule,
            variant=variant,
            amp=precision.choose_precision(amp, where),
            compile=compile,
            l2=l2,
            log_interval=log_interval,
            dtype=dtype,
            **hyperparameters,
        )
        for seed in seeds
    ]
    if not plans:
        raise CockpitError("there are no seeds; give at least one")
    first = plans[0]
    precision.choose_precision(first.amp or False, where, closure=first.choice.needs_closure)
    folder = default_folder() if out is None else Path(out)
    told = Silent() if progress is None else progress
    session = Session(first.problem, first.variant, place, where, folder, watch, every, resume, told)
    return session.run_all(plans)


def _check(seeds: Any, watch: str | None, every: Any, place: Any) -> None:
    if not isinstance(seeds, Iterable):
        raise CockpitError(f"seeds is {seeds!r}; give several, [42, 43] say")
    if watch is not None:
        resolve(watch)  # says if there is no such preset
    if every is not None and (watch is None or not isinstance(every, int) or isinstance(every, bool) or every < 1):
        raise CockpitError(f"every is {every!r}; give a number of steps, 1 or more, and with watch what to measure")
    if not isinstance(place, Place | None):
        raise CockpitError(f"place is {place!r}; give a cockpit.problems.Place(folder)")


def train_seconds(
    problem: str | Problem,
    choice: Choice,
    epochs: int,
    batch_size: int | None,
    place: Place | None = None,
    device: str | torch.device | None = None,
    seed: int = 42,
) -> float:
    """The time that training alone takes: nothing is evaluated, watched or written."""
    plan = make_plan(problem, choice, seed=seed, epochs=epochs, batch_size=batch_size)
    where = precision.choose_device(device)
    splits = on_device(plan.problem.data(place or default_place(), plan.variant), where)
    check_sizes(splits, plan.batch_size)
    with unchanged(where):
        model = plan.problem.model(model_seed(seed)).to(where)
        optimizer = choice.build(model.parameters())
        modes.begin(optimizer)
        training = Training(plan.problem, model, optimizer, closure=choice.needs_closure)
        seconds = 0.0
        for epoch in range(epochs):
            seed_phase(seed, epoch, TRAINING, where)
            batches = splits.train.epoch(plan.batch_size, *epoch_generators(seed, epoch, plan.variant.order))
            _, taken = timed(partial(training.epoch, batches), where)
            seconds += taken
    return seconds
