"""Runs of a small problem in step: one call computes the losses and gradients of all, and judges them.

The bits of a run do not depend on the runs beside it.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from cockpit.bench import rows
from cockpit.bench.field import Field, Sample, field, samples, whole
from cockpit.bench.precision import DTYPES
from cockpit.bench.seeds import epoch_generators, train_eval_generator
from cockpit.bench.updates import Member, Own, Ruled, parameter
from cockpit.optimizers.ruled import RuleOptimizer
from cockpit.problems._base import Splits


class Pack:
    """Runs that differ by what :func:`cockpit.bench.packs.together` leaves out: hyperparameters, seeds, matrices ...

    What it takes and gives is in the order of the members; inside, rows with the same matrix stand together.
    """

    def __init__(self, members: Sequence[Member], splits: Splits) -> None:
        order = sorted(range(len(members)), key=lambda place: members[place].plan.variant.hessian)
        self._members = [members[place] for place in order]
        self._row = {place: row for row, place in enumerate(order)}
        self._back = torch.tensor([self._row[place] for place in range(len(members))])
        self._plan, self._splits = members[0].plan, splits
        self._seeds = sorted({member.plan.seed for member in members})
        self._field = field([member.plan for member in self._members], DTYPES[self._plan.dtype])
        self._theta = rows.stacked([parameter(member).detach() for member in self._members])
        kind = Ruled if isinstance(members[0].optimizer, RuleOptimizer) else Own
        self._updates: Own | Ruled = kind(self._members, self._theta)
        self._steps: list[tuple[Tensor, dict[int, Sample]]] = []  # of an epoch: mean samples, batches by seed
        self._held = self._splits_held()
        self._alone: dict[int, Field] = {}  # by row, where an optimizer asks for its own losses

    def failed(self) -> dict[int, BaseException]:
        """The members whose optimizer has raised, and what."""
        return {place: self._updates.failed[row] for place, row in self._row.items() if row in self._updates.failed}

    def over(self, places: Iterable[int]) -> None:
        """Leave out members that need no more steps, where each step is one's own."""
        self._updates.over |= {self._row[place] for place in places}

    def keep(self, place: int) -> None:
        """Bring a member's parameters and state to its model and its optimizer."""
        self._updates.keep(self._row[place], self._theta[self._row[place]])

    @torch.no_grad()
    def train(self, epoch: int, every: int = 1, tick: Callable[[], None] | None = None) -> Tensor:
        """Train an epoch.

        Args:
            epoch: Counted from 0.
            every: Which steps' losses are wanted; those of others may lack what does not depend on the parameters.
            tick: Called after each step.

        Returns:
            The losses before each step, [members, steps].
        """
        for member in self._members:
            member.rates.begin(epoch)
        self._updates.begin(epoch)
        if not self._steps or self._plan.variant.order == "fresh":
            self._steps = self._epoch(epoch)
        seen = []
        for step, (means, batches) in enumerate(self._steps):
            losses, gradients = self._field.slopes(self._theta, means)
            seen.append(losses if step % every else losses + self._rests(batches, losses))
            self._theta = self._updates.step(self._theta, gradients, partial(self._own, means))
            if tick is not None:
                tick()
        return torch.stack(seen, 1)[self._back]

    @torch.no_grad()
    def judge(self) -> dict[str, Tensor]:
        """The losses of all splits, [members] each, in float64."""
        theta = self._updates.judged(self._theta)
        return {
            metric: (self._field.losses(theta, means).double() + rests)[self._back]
            for metric, (means, rests) in self._held.items()
        }

    # ---- what runs see

    def _epoch(self, epoch: int) -> list[tuple[Tensor, dict[int, Sample]]]:
        """What each step of an epoch sees: a mean sample for each run, and the batches by seed."""
        plan, by_seed = self._plan, {}
        for seed in self._seeds:
            generators = epoch_generators(seed, epoch, plan.variant.order)
            by_seed[seed] = samples(self._splits.train, plan.batch_size, *generators)
        steps = [dict(zip(by_seed, batches, strict=True)) for batches in zip(*by_seed.values(), strict=True)]
        return [(self._means(batches), batches) for batches in steps]

    def _means(self, by_seed: dict[int, Sample]) -> Tensor:
        """The mean sample of each run."""
        place = {seed: row for row, seed in enumerate(by_seed)}
        stacked = rows.stacked([sample.mean for sample in by_seed.values()])
        return stacked[[place[member.plan.seed] for member in self._members]]

    def _rests(self, by_seed: dict[int, Sample], like: Tensor) -> Tensor:
        """What the losses at mean samples lack, [runs]."""
        known: dict[tuple[int, int], float] = {}
        for row, member in enumerate(self._members):
            key = member.plan.seed, member.plan.variant.hessian
            if key not in known:
                known[key] = self._field.rest(row, by_seed[key[0]])
        keys = [(member.plan.seed, member.plan.variant.hessian) for member in self._members]
        return torch.tensor([known[key] for key in keys], dtype=like.dtype)

    def _splits_held(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Mean samples and rests of what is judged, by metric."""
        size, variant = self._plan.batch_size, self._plan.variant
        drawn = {seed: train_eval_generator(seed, variant.order, variant.shuffled_eval) for seed in self._seeds}
        judged = {
            "train_loss": {seed: whole(self._splits.train_eval, size, drawn[seed]) for seed in self._seeds},
        }
        if self._splits.valid is not None:
            judged["valid_loss"] = dict.fromkeys(self._seeds, whole(self._splits.valid, size))
        judged["test_loss"] = dict.fromkeys(self._seeds, whole(self._splits.test, size))
        wide = torch.zeros(0, dtype=torch.float64)
        return {key: (self._means(by_seed), self._rests(by_seed, wide)) for key, by_seed in judged.items()}

    def _own(self, means: Tensor, run: int, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and gradient of one run at parameters of its own."""
        if run not in self._alone:
            self._alone[run] = field([self._members[run].plan], theta.dtype)
        losses, gradients = self._alone[run].slopes(rows.stacked([theta]), means[run : run + 1])
        return losses[0], gradients[0]
