"""One run: judge, train an epoch, judge again; its state is kept after each epoch."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from cockpit.bench import checkpoint, modes, precision
from cockpit.bench.evaluation import evaluate_all
from cockpit.bench.live import Live, Plain, Watched
from cockpit.bench.plan import Plan
from cockpit.bench.progress import Progress, described
from cockpit.bench.randomness import EVALUATION, TRAINING, evaluation_seed, seed_phase
from cockpit.bench.rates import Rates
from cockpit.bench.seeds import epoch_generators, model_seed, train_eval_generator
from cockpit.bench.training import Training
from cockpit.core.errors import CockpitError
from cockpit.core.plain import plain
from cockpit.problems._base import Splits
from cockpit.results import folder as results
from cockpit.results.result import Result

PAUSE = 1.0  # seconds from one state on disk to the next: what is trained faster than written is rather trained again

Made = TypeVar("Made")


def on_device(splits: Splits, device: torch.device) -> Splits:
    """All data on a device."""
    valid = None if splits.valid is None else splits.valid.to(device)
    return Splits(splits.train.to(device), splits.train_eval.to(device), valid, splits.test.to(device))


def timed(work: Callable[[], Made], device: torch.device) -> tuple[Made, float]:
    """What some work returns, and the seconds until the device has done it."""
    begin = time.perf_counter()
    made = work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return made, time.perf_counter() - begin


class Run:
    """A model on its way; ``result`` is what is known so far."""

    def __init__(self, plan: Plan, folder: Path, splits: Splits, device: torch.device, progress: Progress) -> None:
        self.plan, self._folder, self._device, self._progress = plan, folder, device, progress
        self._splits = precision.in_numbers(splits, plan.dtype)
        self._steps = splits.train.steps(plan.batch_size)  # of an epoch
        with precision.numbers(plan.dtype):
            self.model = plan.problem.model(model_seed(plan.seed)).to(device)
        if plan.compile:
            self.model.compile(backend=plan.compile if isinstance(plan.compile, str) else "inductor")
        self.optimizer = plan.choice.build(self.model.parameters())
        modes.begin(self.optimizer)
        self.rates = Rates(plan.schedule, self.optimizer, plan.epochs)
        self._scaler = precision.scaler(plan.amp)
        self._kept = time.monotonic()  # when the state was last written
        self.result = plan.result()
        self.fetch: Callable[[], None] | None = None  # brings parameters and state here from where they are trained

    def go(self, state: dict[str, Any] | None, preset: str | None, every: int | None) -> Result:
        """Train from the beginning, or from a state; measure what a preset names besides."""
        if state is not None:
            self.restore(state)
        epoch = self.epochs_done
        self._progress.begin(self._title, self.plan.epochs * self._steps, epoch * self._steps)
        with self.live(preset, every, epoch) as live:
            training = self._training(live)
            if state is None:
                self.judged(0, self._evaluate(0), live)
            else:
                self.log_again(live)
            while not self.result.complete:
                self.trained(epoch, *self._train(epoch, training, live))
                epoch += 1
                self.judged(epoch, self._evaluate(epoch), live)
        self._progress.end(self.end())
        return self.result

    def end(self) -> str:
        """Forget what a continued run would need; returns what is to be said of the run."""
        checkpoint.remove(self._folder)
        if self.result.diverged is not None:
            return f"{self._folder}: diverged in epoch {self.result.diverged}, the loss was no longer finite"
        return f"{self._folder}: {described(self.result)}"

    @property
    def _title(self) -> str:
        return f"{self.plan.title} seed {self.plan.seed}"

    @property
    def epochs_done(self) -> int:
        """How many epochs were trained and judged."""
        return max(len(self.result.curves.get("train_loss", ())) - 1, 0)

    # ---- an epoch

    def _train(self, epoch: int, training: Training, live: Live) -> tuple[Tensor, float]:
        """Train one pass; returns the losses, and the seconds it took."""
        plan = self.plan
        self.rates.begin(epoch)
        seed_phase(plan.seed, epoch, TRAINING, self._device)
        batches = self._splits.train.epoch(plan.batch_size, *epoch_generators(plan.seed, epoch, plan.variant.order))

        def tick(loss: Tensor) -> None:
            live.stepped(loss)
            self._progress.step()

        return timed(lambda: training.epoch(batches, tick), self._device)

    def trained(self, epoch: int, losses: Tensor, seconds: float) -> None:
        """An epoch was trained: keep the losses before the first one that is not finite."""
        finite = losses.isfinite()
        whole = len(losses) if bool(finite.all()) else int(finite.int().argmin())
        logged = losses[:whole][:: self.plan.log_interval].tolist()
        self.result = replace(
            self.result,
            batch_losses=[*self.result.batch_losses, *logged],
            seconds=[*self.result.seconds, seconds],
            diverged=None if whole == len(losses) else epoch + 1,  # counted from 1: there is no value after it
        )

    def judged(self, epoch: int, found: dict[str, float] | None, live: Live) -> None:
        """The model was evaluated after so many epochs, unless the last one has diverged: keep everything."""
        if found is not None:
            self._add(epoch, found)
        over = epoch == self.plan.epochs or self.result.diverged is not None
        self.result = replace(self.result, complete=over)
        if self.result.diverged is None:
            self._log(live, epoch)  # before the result: a run that is complete is never opened again
        if over:
            results.write(self.result, self._folder)
        elif time.monotonic() - self._kept >= PAUSE:
            self._keep()
        if self.result.diverged is None:
            self._progress.epoch(epoch, self.result)

    def _evaluate(self, epoch: int) -> dict[str, float] | None:
        plan = self.plan
        if self.result.diverged is not None:
            return None
        seed_phase(plan.seed, epoch, EVALUATION, self._device)
        with modes.judging(self.optimizer):
            return evaluate_all(
                plan.problem,
                self.model,
                self._splits,
                plan.batch_size,
                precision.autocast(plan.amp, self._device),
                None if plan.variant.held_out else torch.Generator().manual_seed(evaluation_seed(plan.seed, epoch)),
                train_eval_generator(plan.seed, plan.variant.order, plan.variant.shuffled_eval),
            )

    def _add(self, epoch: int, found: dict[str, float]) -> None:
        """Continue the curves, unless the model has diverged."""
        if not all(map(math.isfinite, found.values())):
            self.result = replace(self.result, diverged=epoch)
            return
        curves = {metric: [*self.result.curves.get(metric, ()), value] for metric, value in found.items()}
        self.result = replace(self.result, curves=curves)
        if epoch:
            self.rates.end(found)

    # ---- what is recorded

    def live(self, preset: str | None, every: int | None, epoch: int) -> Live:
        """Record the run; without a preset only what training knows anyway."""
        parts = self.model, self.optimizer, self._folder
        step, steps = epoch * self._steps, max(self.plan.epochs * self._steps, 1)
        if preset is None:
            return Plain(*parts, interval=self.plan.log_interval, name=self._title, step=step, steps=steps)
        return Watched(
            *parts, preset=preset, every=every, scaler=self._scaler, name=self._title, step=step, steps=steps
        )

    def _training(self, live: Live) -> Training:
        return Training(
            self.plan.problem,
            self.model,
            self.optimizer,
            closure=self.plan.choice.needs_closure,
            autocast=precision.autocast(self.plan.amp, self._device),
            scaler=self._scaler,
            mean=live.mean,
        )

    def log_again(self, live: Live) -> None:
        """Show what is known of all epochs: a process that is killed may not have written all of it."""
        for epoch in range(self.epochs_done + 1):
            self._log(live, epoch)

    def _log(self, live: Live, epoch: int) -> None:
        """Show an epoch and its values of the curves with what is measured, at the last step that they include."""
        found = {metric: values[epoch] for metric, values in self.result.curves.items()}
        live.log(max(epoch * self._steps - 1, 0), {**found, "epoch": float(epoch)})

    # ---- what a continued run needs

    def _keep(self) -> None:
        if self.fetch is not None:
            self.fetch()
        checkpoint.save(self._folder, self._state())
        results.write(self.result, self._folder)
        self._kept = time.monotonic()

    def _state(self) -> dict[str, Any]:
        return {
            "settings": plain(self.plan.settings()),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rates": self.rates.state_dict(),
            "scaler": None if self._scaler is None else self._scaler.state_dict(),
            "curves": self.result.curves,
            "batch_losses": self.result.batch_losses,
            "seconds": self.result.seconds,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state that was kept."""
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.rates.load_state_dict(state["rates"])
            if self._scaler is not None:
                self._scaler.load_state_dict(state["scaler"])
            known = {name: state[name] for name in ("curves", "batch_losses", "seconds")}
        except (KeyError, ValueError, RuntimeError, TypeError) as error:
            first = str(error).splitlines()[0]
            raise CockpitError(
                f"{self._folder} holds the state of another model or optimizer ({first}); begin again with --again"
            ) from error
        self.result = replace(self.result, **known)
