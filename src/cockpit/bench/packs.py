"""Many runs in one call, of small problems: which may go together, and the call. Nothing is written to disk."""

import math
import tempfile
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from cockpit.bench import modes, precision
from cockpit.bench.evaluation import check_sizes
from cockpit.bench.field import PROBLEMS
from cockpit.bench.pack import Pack
from cockpit.bench.plan import Plan
from cockpit.bench.progress import Silent
from cockpit.bench.randomness import unchanged
from cockpit.bench.rates import Rates, is_factory
from cockpit.bench.run import Run, on_device
from cockpit.bench.seeds import model_seed
from cockpit.problems._base import Place, Splits
from cockpit.results.result import Result


@dataclass(frozen=True, slots=True)
class Failed:
    """In place of the result of a run that raised: the others went on, with the same bits."""

    plan: Plan
    error: BaseException  # an Exception, or a call of sys.exit


def together(plan: Plan) -> Hashable | None:
    """Plans with equal keys may go into one pack; None: the plan runs alone."""
    if plan.problem.name not in PROBLEMS or plan.compile or plan.amp is not None or plan.problem.l2:
        return None
    choice, variant = plan.choice, replace(plan.variant, hessian=0)
    same = (plan.problem.name, variant, plan.epochs, plan.batch_size, plan.dtype, plan.log_interval)
    return (*same, choice.name, choice.rule, choice.code)


def train(
    plans: Sequence[Plan], place: Place | None = None, device: torch.device | str = "cpu"
) -> list[Result | Failed]:
    """Train plans, those of one key in one call; an outcome for each, in order.

    Args:
        plans: Some runs.
        place: Where data are, for problems that read them.
        device: Packs go on a CPU alone.
    """
    where, data = torch.device(device), place or Place(Path())
    keyed: dict[Hashable, list[int]] = {}  # places of plans by their keys
    for number, plan in enumerate(plans):
        keyed.setdefault(together(plan) if where.type == "cpu" else None, []).append(number)
    found: dict[int, Result | Failed] = {}
    with unchanged(where):
        for key, numbers in keyed.items():
            held = [plans[number] for number in numbers]
            outcomes = [_alone(plan, data, where) for plan in held] if key is None else _in_step(held, data)
            found |= dict(zip(numbers, outcomes, strict=True))
    return [found[number] for number in range(len(plans))]


class _Member:
    """A run that is nowhere on disk."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        with precision.numbers(plan.dtype):
            self.model = plan.problem.model(model_seed(plan.seed))
        self.optimizer = plan.choice.build(self.model.parameters())
        modes.begin(self.optimizer)
        self.rates = Rates(plan.schedule, self.optimizer, plan.epochs)


def _in_step(plans: Sequence[Plan], place: Place) -> list[Result | Failed]:
    splits = _splits(plans[0], place)
    found: list[_Member | Failed] = []
    for plan in plans:
        try:
            found.append(_Member(plan))
        except (Exception, SystemExit) as error:  # a setting that the optimizer refuses
            found.append(Failed(plan, error))
    members = [one for one in found if isinstance(one, _Member)]
    outcomes = iter(_Course(members, splits).outcomes() if members else ())
    return [one if isinstance(one, Failed) else next(outcomes) for one in found]


class _Course:
    """What becomes of the members of a pack, epoch by epoch."""

    def __init__(self, members: Sequence[_Member], splits: Splits) -> None:
        self._members, self._plan, self._pack = members, members[0].plan, Pack(members, splits)
        self._scheduled = [place for place, one in enumerate(members) if is_factory(one.plan.schedule)]
        self._judged: list[dict[str, Tensor]] = []  # after 0, 1, 2 ... epochs: [members] by metric
        self._logged: list[Tensor] = []  # [members, logged steps] of each epoch
        self._seconds: list[float] = []
        self._ends: dict[int, int] = {}  # the epoch in which a member diverged; there is no value after it
        self._cut: dict[int, int] = {}  # how many losses of that epoch were logged before

    def outcomes(self) -> list[Result | Failed]:
        """Train all to their ends."""
        self._judge()
        for epoch in range(self._plan.epochs):
            going = len(self._members) - len(self._ends.keys() | self._pack.failed().keys())
            if not going:
                break
            self._train(epoch, going)
            self._judge()
        failed = self._pack.failed()
        columns = {metric: torch.stack([one[metric] for one in self._judged], 1).tolist() for metric in self._judged[0]}
        logged = [epoch.tolist() for epoch in self._logged]
        return [
            Failed(one.plan, failed[place]) if place in failed else self._result(place, columns, logged)
            for place, one in enumerate(self._members)
        ]

    def _train(self, epoch: int, going: int) -> None:
        begin, every = time.perf_counter(), self._plan.log_interval
        losses = self._pack.train(epoch, every)
        self._seconds.append((time.perf_counter() - begin) / going)
        self._logged.append(losses[:, ::every])
        finite = losses.isfinite()
        for place in (~finite.all(1)).nonzero().flatten().tolist():
            if place not in self._ends:
                self._ends[place] = epoch + 1  # counted from 1
                self._cut[place] = math.ceil(int(finite[place].int().argmin()) / every)

    def _judge(self) -> None:
        epoch, values = len(self._judged), self._pack.judge()
        self._judged.append(values)
        finite = torch.stack(list(values.values())).isfinite().all(0)
        for place in (~finite).nonzero().flatten().tolist():
            self._ends.setdefault(place, epoch)
        for place in self._scheduled if epoch else ():
            if place not in self._ends:
                self._members[place].rates.end({metric: float(column[place]) for metric, column in values.items()})
        self._pack.over(self._ends)

    def _result(self, place: int, columns: dict[str, list[list[float]]], logged: list[list[list[float]]]) -> Result:
        plan, end = self._members[place].plan, self._ends.get(place)
        epochs = [epoch[place] for epoch in logged[:end]]
        if place in self._cut:
            epochs[-1] = epochs[-1][: self._cut[place]]
        return replace(
            plan.result(),
            curves={metric: values[place][:end] for metric, values in columns.items()} if end != 0 else {},
            batch_losses=[loss for epoch in epochs for loss in epoch],
            seconds=self._seconds[:end],
            diverged=end,
            complete=True,
        )


def _alone(plan: Plan, place: Place, device: torch.device) -> Result | Failed:
    try:
        splits = on_device(_splits(plan, place), device)
        with tempfile.TemporaryDirectory(prefix="cockpit-run-") as folder:
            return Run(plan, Path(folder), splits, device, Silent()).go(None, None, None)
    except (Exception, SystemExit) as error:
        return Failed(plan, error)


def _splits(plan: Plan, place: Place) -> Splits:
    splits = plan.problem.data(place, plan.variant)
    check_sizes(splits, plan.batch_size)
    return precision.in_numbers(splits, plan.dtype)
