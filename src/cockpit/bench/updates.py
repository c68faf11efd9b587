"""How the runs of a pack are updated: by one rule in one call, or each by an optimizer of its own."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cockpit.bench import modes
from cockpit.bench.plan import Plan
from cockpit.bench.randomness import TRAINING, seed_phase
from cockpit.bench.rates import Rates, is_factory
from cockpit.core.errors import CockpitError
from cockpit.optimizers.each import Each
from cockpit.optimizers.ruled import RuleOptimizer

Slopes = Callable[[int, Tensor], tuple[Tensor, Tensor]]  # of a run at its own parameters: loss and gradient


class Member(Protocol):
    """A run of a pack."""

    plan: Plan
    model: nn.Module  # with one parameter
    optimizer: Optimizer
    rates: Rates


class Updates(Protocol):
    """The optimizers of a pack; ``theta`` and ``gradients`` have a row for each run."""

    failed: dict[int, BaseException]  # by run: it takes no further part
    over: set[int]  # runs that need no more steps, where each takes its own

    def begin(self, epoch: int) -> None:
        """An epoch begins; the rates are set."""

    def step(self, theta: Tensor, gradients: Tensor, slopes: Slopes) -> Tensor:
        """The parameters after a step."""

    def judged(self, theta: Tensor) -> Tensor:
        """What is judged."""

    def keep(self, run: int, theta: Tensor) -> None:
        """Bring a run's parameters and state to its model and its optimizer."""


def parameter(member: Member) -> nn.Parameter:
    """What a run trains."""
    (found,) = member.model.parameters()
    return found


class Ruled:
    """One rule for all runs: its hyperparameters are columns."""

    def __init__(self, members: Sequence[Member], theta: Tensor) -> None:
        self.failed: dict[int, BaseException] = {}
        self.over: set[int] = set()
        self._members = members
        self._scheduled = [member for member in members if is_factory(member.plan.schedule)]
        first = members[0].optimizer
        assert isinstance(first, RuleOptimizer)
        self._rule = first.rule
        self._state = self._rule.init(theta)
        self._done = 0  # steps
        if len(members) == 1:
            self._restore(first.state.get(parameter(members[0]), {}))

    def begin(self, epoch: int) -> None:
        """See :class:`Updates`."""
        for member in self._scheduled:
            member.optimizer.step()  # nothing to update there: a scheduler counts it
        groups = [member.optimizer.param_groups[0] for member in self._members]
        self._settings = {name: Each([float(group[name]) for group in groups]) for name in self._rule.defaults}

    def step(self, theta: Tensor, gradients: Tensor, slopes: Slopes) -> Tensor:
        """See :class:`Updates`."""
        self._done += 1
        moved, self._state = self._rule.update(theta, gradients, self._state, self._done, **self._settings)
        return moved

    def judged(self, theta: Tensor) -> Tensor:
        """See :class:`Updates`."""
        return theta if self._rule.judged is None else self._state[self._rule.judged]

    def keep(self, run: int, theta: Tensor) -> None:
        """See :class:`Updates`."""
        member = self._members[run]
        target = parameter(member)
        with torch.no_grad():
            target.copy_(theta[: len(target)])
        own = {name: value[run, : len(target)].clone() for name, value in self._state.items()}
        member.optimizer.state[target] = {**own, "step": self._done}

    def _restore(self, kept: dict[str, Any]) -> None:
        """Go on from the state of an optimizer that has taken steps."""
        self._done = kept.get("step", 0)
        for name, value in self._state.items():
            if name in kept:
                value[0, : len(kept[name])] = kept[name]


class Own:
    """An optimizer for each run, on the run's own parameter, with the run's own random numbers."""

    def __init__(self, members: Sequence[Member], theta: Tensor) -> None:
        self.failed: dict[int, BaseException] = {}
        self.over: set[int] = set()
        self._members = members
        # An optimizer of torch draws nothing; of any other nothing is known.
        self._draws = len(members) > 1 and members[0].plan.choice.code is not None
        self._random: list[Any] = [None] * len(members)

    def begin(self, epoch: int) -> None:
        """See :class:`Updates`."""
        for run, member in enumerate(self._members):
            seed_phase(member.plan.seed, epoch, TRAINING)
            self._random[run] = _random_state() if self._draws else None

    def step(self, theta: Tensor, gradients: Tensor, slopes: Slopes) -> Tensor:
        """See :class:`Updates`."""
        for run, member in enumerate(self._members):
            if run in self.failed or run in self.over:
                continue
            if self._draws:
                _set_random_state(self._random[run])
            try:
                self._step(run, member, gradients[run], slopes)
            except (Exception, SystemExit) as error:
                self.failed[run] = _explained(error, member)
                continue
            if self._draws:
                self._random[run] = _random_state()
            own = parameter(member).detach()  # an optimizer from elsewhere may replace what it was given
            theta[run, : len(own)] = own
        return theta

    def judged(self, theta: Tensor) -> Tensor:
        """See :class:`Updates`."""
        if not modes.has(self._members[0].optimizer):
            return theta
        found = theta.clone()
        for run, member in enumerate(self._members):
            if run not in self.failed and run not in self.over:
                with modes.judging(member.optimizer):
                    own = parameter(member).detach()
                    found[run, : len(own)] = own
        return found

    def keep(self, run: int, theta: Tensor) -> None:
        """See :class:`Updates`: they are there."""

    def _step(self, run: int, member: Member, gradient: Tensor, slopes: Slopes) -> None:
        own = parameter(member)

        def closure() -> Tensor:
            member.optimizer.zero_grad()
            loss, slope = slopes(run, own.detach())
            own.grad = slope[: len(own)].clone()
            return loss

        if member.plan.choice.needs_closure:
            member.optimizer.step(closure)  # type: ignore[arg-type]
        else:
            own.grad = gradient[: len(own)].clone()
            member.optimizer.step()


def _random_state() -> tuple[Any, ...]:
    return torch.get_rng_state(), np.random.get_state(), random.getstate()


def _set_random_state(state: tuple[Any, ...]) -> None:
    torch.set_rng_state(state[0])
    np.random.set_state(state[1])
    random.setstate(state[2])


def _explained(error: BaseException, member: Member) -> BaseException:
    if isinstance(error, RuntimeError) and isinstance(member.optimizer, torch.optim.SparseAdam):
        said = CockpitError(f"SparseAdam cannot train {member.plan.problem.name}: {error}")
        said.__cause__ = error
        return said
    return error
