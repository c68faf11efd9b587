"""Runs that are trained in one call: which may go together, and the call."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from cockpit.bench import rates
from cockpit.bench.evaluation import check_sizes
from cockpit.bench.many import PROBLEMS, _Averaged, _train
from cockpit.bench.plan import Plan
from cockpit.problems._base import Place
from cockpit.results.result import Result


def together(plan: Plan) -> Hashable | None:
    """Plans with equal keys may go into one pack; None: the plan runs alone."""
    packs = plan.problem.name in PROBLEMS and not plan.compile and plan.amp is None and not plan.problem.l2
    if not packs or rates.is_factory(plan.schedule) or plan.choice.needs_closure:
        return None
    return (plan.problem.name, plan.variant, plan.epochs, plan.batch_size, plan.schedule)


def train(plans: Sequence[Plan], place: Place | None = None, device: torch.device | str = "cpu") -> list[Result]:
    """Train plans that go together; one result a plan, in order, and nothing is written to disk."""
    splits = plans[0].problem.data(place or Place(Path()), plans[0].variant)
    check_sizes(splits, plans[0].batch_size)
    averaged = _Averaged(plans[0].problem, splits, plans[0].batch_size)
    found = []
    for plan in plans:
        (curves, diverged), *_ = _train(averaged, [plan.choice], [plan.seed], plan)
        found.append(replace(plan.result(), curves=curves, diverged=diverged, log_interval=None, complete=True))
    return found
