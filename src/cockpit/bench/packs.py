"""Many runs in one call, of small problems: which may go together, and the call. Nothing is written to disk."""

import math
import tempfile
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from cockpit.bench import precision
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
    """Train plans of one key in one call, or any plans one after the other; an outcome for each, in order.

    Args:
        plans: Some runs.
        place: Where data are, for problems that read them.
        device: Packs go on a CPU alone.
    """
    if not plans:
        return []
    where = torch.device(device)
    keys = {together(plan) for plan in plans}
    packed = len(keys) == 1 and None not in keys and where.type == "cpu"
    with unchanged(where):
        if packed:
            return _in_step(plans, place or Place(Path()))
        return [_alone(plan, place or Place(Path()), where) for plan in plans]


class _Member:
    """A run that is nowhere on disk."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        with precision.numbers(plan.dtype):
            self.model = plan.problem.model(model_seed(plan.seed))
        self.optimizer = plan.choice.build(self.model.parameters())
        self.rates = Rates(plan.schedule, self.optimizer, plan.epochs)
        self.curves: dict[str, list[float]] = {}
        self.batch_losses: list[float] = []
        self.seconds: list[float] = []
        self.diverged: int | None = None

    def result(self) -> Result:
        """What became of it."""
        return replace(
            self.plan.result(),
            curves=self.curves,
            batch_losses=self.batch_losses,
            seconds=self.seconds,
            diverged=self.diverged,
            complete=True,
        )


def _in_step(plans: Sequence[Plan], place: Place) -> list[Result | Failed]:
    splits = _splits(plans[0], place)
    found: list[_Member | Failed] = []
    for plan in plans:
        try:
            found.append(_Member(plan))
        except (Exception, SystemExit) as error:  # a setting that the optimizer refuses
            found.append(Failed(plan, error))
    members = [one for one in found if isinstance(one, _Member)]
    failed = _go(members, splits) if members else {}
    outcomes = iter([Failed(one.plan, failed[n]) if n in failed else one.result() for n, one in enumerate(members)])
    return [one if isinstance(one, Failed) else next(outcomes) for one in found]


def _go(members: Sequence[_Member], splits: Splits) -> dict[int, BaseException]:
    """Train members to their ends; returns those that raised, by place."""
    plan, pack = members[0].plan, Pack(members, splits)
    _judged(members, pack, 0)
    for epoch in range(plan.epochs):
        failed = pack.failed()
        going = [place for place, one in enumerate(members) if one.diverged is None and place not in failed]
        if not going:
            break
        begin = time.perf_counter()
        losses = pack.train(epoch, plan.log_interval)
        share = (time.perf_counter() - begin) / len(going)
        whole = losses.isfinite().int().cumprod(1).sum(1).tolist()
        logged = losses[:, :: plan.log_interval].tolist()
        for place in going:
            one = members[place]
            one.batch_losses += logged[place][: math.ceil(whole[place] / plan.log_interval)]
            one.seconds.append(share)
            if whole[place] < losses.shape[1]:
                one.diverged = epoch + 1  # counted from 1: there is no value after it
        _judged(members, pack, epoch + 1)
    return pack.failed()


def _judged(members: Sequence[_Member], pack: Pack, epoch: int) -> None:
    """Continue the curves of members that have not diverged."""
    values = pack.judge()
    table = torch.stack(list(values.values()))
    finite = table.isfinite().all(0).tolist()
    rows = table.T.tolist()
    for place, one in enumerate(members):
        if one.diverged is None and not finite[place]:
            one.diverged = epoch
        if one.diverged is None:
            found = dict(zip(values, rows[place], strict=True))
            for metric, value in found.items():
                one.curves.setdefault(metric, []).append(value)
            if epoch and is_factory(one.plan.schedule):
                one.rates.end(found)
    pack.over([place for place, one in enumerate(members) if one.diverged is not None])


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
