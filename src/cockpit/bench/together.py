"""Several seeds at once: small runs go in step, and one call computes the losses and gradients of all of them.

Everything else of a run, its optimizer above all, stays its own. What one call computes for many runs must be, to the
last bit, what each would compute alone; whether it is depends on the machine, so it is tried before.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from cockpit.bench.evaluation import evaluate_all, mean
from cockpit.bench.live import Live
from cockpit.bench.many import ELEMENTWISE, PROBLEMS
from cockpit.bench.optimizers import unwrapped
from cockpit.bench.plan import Plan
from cockpit.bench.progress import Progress
from cockpit.bench.run import Run
from cockpit.bench.seeds import epoch_generators
from cockpit.problems._base import Batches, Splits
from cockpit.results.result import Result

MOST = 16  # runs in step: more would only fill the memory


def groups(plans: Sequence[Plan]) -> list[Sequence[Plan]]:
    """Which plans, alike but for their seeds, may go in step; none where that is impossible or no use.

    A problem must draw nothing at random besides its batches, and an optimizer must do nothing but look at its own
    parameters: that is known of some.
    """
    if not plans or len({plan.seed for plan in plans}) < len(plans):
        return []
    first = plans[0]
    known = first.problem.name in PROBLEMS and unwrapped(first.choice.make) in ELEMENTWISE
    own = first.variant.shuffled_eval or first.variant.order == "study"  # each seed is judged on samples of its own
    if own or not known or first.problem.l2 or first.compile or first.amp is not None:
        return []
    parts = [plans[begin : begin + MOST] for begin in range(0, len(plans), MOST)]
    return [part for part in parts if len(part) > 1]


class Group:
    """Runs that go in step."""

    def __init__(self, runs: Sequence[Run], splits: Splits, progress: Progress) -> None:
        self._runs, self._splits, self._progress = list(runs), splits, progress
        self._plan, self._model = runs[0].plan, runs[0].model
        self._names = [name for name, _ in self._model.named_parameters()]
        self._parameters = {run.plan.seed: list(run.model.parameters()) for run in runs}
        held = {"train_loss": splits.train_eval, "valid_loss": splits.valid, "test_loss": splits.test}
        self._held = {metric: _whole(split, self._plan.batch_size) for metric, split in held.items() if split}

    def agrees(self) -> bool:
        """Whether this machine computes the same for all runs in one call as for each alone: tried on first batches."""
        losses, gradients = self._gradients(self._runs, *next(self._steps(self._runs, 0)))
        for place, run in enumerate(self._runs):
            inputs, targets = next(self._batches(run, 0))
            own = self._plan.problem.losses(run.model(inputs), targets).mean()
            expected = torch.autograd.grad(own, self._parameters[run.plan.seed])
            found = [gradient[place] for gradient in gradients]
            if not all(map(torch.equal, (own.detach(), *expected), (losses[place], *found))):
                return False
        alone = evaluate_all(self._plan.problem, self._model, self._splits, self._plan.batch_size)
        return self._evaluate(self._runs[0]) == alone

    def go(self) -> list[Result]:
        """Train all runs from the beginning."""
        plan, steps = self._plan, self._splits.train.steps(self._plan.batch_size)
        seeds = [run.plan.seed for run in self._runs]
        self._progress.begin(f"{plan.title} seeds {min(seeds)} to {max(seeds)}", plan.epochs * steps, 0)
        with ExitStack() as stack:
            rooms = [stack.enter_context(ExitStack()) for _ in self._runs]
            lives = [room.enter_context(run.live(None, None, 0)) for room, run in zip(rooms, self._runs, strict=True)]
            going = list(zip(self._runs, lives, rooms, strict=True))
            for epoch in range(plan.epochs + 1):
                if epoch:
                    self._train([run for run, _, _ in going], [live for _, live, _ in going], epoch - 1)
                self._judge([run for run, _, _ in going], [live for _, live, _ in going], epoch)
                for run, _, room in going:
                    if run.result.complete:
                        room.close()  # its records are complete, whatever becomes of the others
                going = [one for one in going if not one[0].result.complete]
                if not going:
                    break
        for run in self._runs:
            self._progress.end(run.end())
        return [run.result for run in self._runs]

    def _train(self, runs: Sequence[Run], lives: Sequence[Live], epoch: int) -> None:
        begin = time.perf_counter()
        for run in runs:
            run.rates.begin(epoch)
            run.model.train()
        losses = []
        for inputs, targets in self._steps(runs, epoch):
            loss, gradients = self._gradients(runs, inputs, targets)
            for place, (run, live) in enumerate(zip(runs, lives, strict=True)):
                for parameter, gradient in zip(self._parameters[run.plan.seed], gradients, strict=True):
                    parameter.grad = gradient[place]
                run.optimizer.step()
                live.stepped(loss[place])
            losses.append(loss)
            self._progress.step()
        table, share = torch.stack(losses, 1), (time.perf_counter() - begin) / len(runs)
        for run, own in zip(runs, table, strict=True):
            run.trained(epoch, own, share)

    def _judge(self, runs: Sequence[Run], lives: Sequence[Live], epoch: int) -> None:
        for run, live in zip(runs, lives, strict=True):
            run.judged(epoch, self._evaluate(run) if run.result.diverged is None else None, live)
        lasting = [run.result.curves for run in runs if run.result.diverged is None]
        if lasting:
            middle = {metric: [sum(curves[metric][-1] for curves in lasting) / len(lasting)] for metric in lasting[0]}
            self._progress.epoch(epoch, replace(runs[0].result, curves=middle))

    # ---- what one call computes

    def _batches(self, run: Run, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        generators = epoch_generators(run.plan.seed, epoch, run.plan.variant.order)
        return self._splits.train.epoch(run.plan.batch_size, *generators)

    def _steps(self, runs: Sequence[Run], epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of each step, [runs, N, ...]."""
        for batches in zip(*(self._batches(run, epoch) for run in runs), strict=True):
            inputs, targets = zip(*batches, strict=True)
            yield torch.stack(inputs), torch.stack(targets)

    def _losses(self, theta: list[Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        """Of one run."""
        outputs = functional_call(self._model, dict(zip(self._names, theta, strict=True)), (inputs,))
        return self._plan.problem.losses(outputs, targets)

    def _gradients(self, runs: Sequence[Run], inputs: Tensor, targets: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Losses, [runs], and gradients, [runs, ...] each."""
        rows = zip(*(self._parameters[run.plan.seed] for run in runs), strict=True)
        theta = [torch.stack([row.detach() for row in same]).requires_grad_() for same in rows]
        losses = vmap(self._losses)(theta, inputs, targets).mean(1)
        return losses.detach(), torch.autograd.grad(losses.sum(), theta)

    @torch.no_grad()
    def _evaluate(self, run: Run) -> dict[str, float]:
        """Each split in one call."""
        run.model.eval()
        losses = {key: self._plan.problem.losses(run.model(whole[0]), whole[1]) for key, whole in self._held.items()}
        return {key: mean(list(own.view(-1, self._plan.batch_size).mean(1))) for key, own in losses.items()}


def _whole(split: Batches, batch_size: int) -> tuple[Tensor, Tensor]:
    """All complete batches of a split, one after the other."""
    inputs, targets = zip(*split.epoch(batch_size), strict=True)
    return torch.cat(inputs), torch.cat(targets)
