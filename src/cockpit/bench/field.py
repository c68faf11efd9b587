"""Problems whose batches act through their mean sample: losses and gradients of many runs, a row for each.

The loss of a batch is the loss of its mean sample, plus a number that does not depend on the parameters. So a step of
the quadratic form or of a function of two variables costs one sample for each run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Protocol

import torch
from torch import Tensor

from cockpit.bench import rows
from cockpit.bench.plan import Plan
from cockpit.problems._base import Batches
from cockpit.problems.nets import quadratic
from cockpit.problems.nets.two_d import TwoD

QUADRATIC = "quadratic_deep"
PROBLEMS = (QUADRATIC, "two_d_beale", "two_d_branin", "two_d_rosenbrock")


@dataclass(frozen=True)
class Sample:
    """A batch, or all batches of a split, as its mean sample and what spreads around it."""

    inputs: Tensor

    @cached_property
    def mean(self) -> Tensor:
        """The mean sample."""
        return self.inputs.mean(0)

    @cached_property
    def spread(self) -> Tensor:
        """The covariance, in float64."""
        centred = self.inputs.double() - self.inputs.double().mean(0)
        return centred.T @ centred / len(centred)


def samples(batches: Batches, batch_size: int, *generators: torch.Generator | None) -> list[Sample]:
    """The batches of an epoch."""
    return [Sample(inputs) for inputs, _ in batches.epoch(batch_size, *generators)]


def whole(batches: Batches, batch_size: int, generator: torch.Generator | None = None) -> Sample:
    """All complete batches as one sample."""
    return Sample(torch.cat([inputs for inputs, _ in batches.epoch(batch_size, generator)]))


class Field(Protocol):
    """A problem, for some runs; ``theta`` and ``means`` have a row for each."""

    def losses(self, theta: Tensor, means: Tensor) -> Tensor:
        """At the mean samples, [runs]."""

    def slopes(self, theta: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and the gradients."""

    def rest(self, run: int, sample: Sample) -> float:
        """What the loss at a mean sample lacks to the mean loss."""


class Forms:
    """Quadratic forms, each run with the matrix of its number; runs with the same matrix stand together."""

    def __init__(self, numbers: Sequence[int], dtype: torch.dtype) -> None:
        self._numbers = list(numbers)
        factors = {number: torch.tensor(quadratic.factor(number)) for number in numbers}
        self._matrices = {number: factor.T @ factor for number, factor in factors.items()}
        counts = {number: len(list(same)) for number, same in groupby(numbers)}
        self._times = rows.Products([self._matrices[number].to(dtype) for number in counts], list(counts.values()))

    def losses(self, theta: Tensor, means: Tensor) -> Tensor:
        """See :class:`Field`."""
        return self.slopes(theta, means)[0]

    def slopes(self, theta: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`Field`."""
        away, gradients = theta - means, torch.zeros_like(theta)
        products = self._times(away)
        width = products.shape[1]
        gradients[:, :width] = products
        return 0.5 * rows.sums(away[:, :width] * products), gradients

    def rest(self, run: int, sample: Sample) -> float:
        """See :class:`Field`."""
        return 0.5 * float((self._matrices[self._numbers[run]] * sample.spread).sum())


class Surface:
    """A function of two variables, tilted by the mean noise."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._function = function

    def losses(self, theta: Tensor, means: Tensor) -> Tensor:
        """See :class:`Field`."""
        tilt = theta[:, :2] * means[:, :2]
        return self._function(*self._variables(theta))[:, 0] + tilt[:, 0] + tilt[:, 1]

    def slopes(self, theta: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`Field`."""
        with torch.enable_grad():
            variables = [one.requires_grad_() for one in self._variables(theta)]
            found = torch.autograd.grad(self._function(*variables).sum(), variables)
        gradients = torch.zeros_like(theta)
        gradients[:, :2] = torch.stack([one[:, 0] for one in found], 1) + means[:, :2]
        return self.losses(theta, means), gradients

    def rest(self, run: int, sample: Sample) -> float:
        """See :class:`Field`."""
        return 0.0

    @staticmethod
    def _variables(theta: Tensor) -> tuple[Tensor, Tensor]:
        """Each variable as wide as a row, so that a run's place in a vector register does not depend on the others."""
        detached = theta.detach()
        u, v = (detached[:, place : place + 1].expand(-1, theta.shape[1]).contiguous() for place in (0, 1))
        return u, v


def field(plans: Sequence[Plan], dtype: torch.dtype) -> Field:
    """The field of runs in the order of their rows."""
    problem = plans[0].problem
    if problem.name == QUADRATIC:
        return Forms([plan.variant.hessian for plan in plans], dtype)
    model = problem.model(0)
    assert isinstance(model, TwoD)
    return Surface(model.function)
