"""A noisy quadratic of 100 dimensions, with the eigenvalues of a deep network's Hessian in mind."""

from dataclasses import replace
from functools import partial

from cockpit.problems._base import Problem
from cockpit.problems.data.generated import quadratic as data
from cockpit.problems.nets.quadratic import losses, numbered, quadratic

quadratic_deep = Problem(
    name="quadratic_deep",
    summary="quadratic of 100 dimensions with random centres",
    model=quadratic,
    data=data,
    losses=losses,
    batch_size=128,
    epochs=100,
    target=87.70315464772136,
    paper="P1",
)


def with_hessian(index: int, problem: Problem = quadratic_deep) -> Problem:
    """Return the problem with the matrix of the ``index``-th problem that a process builds, counted from 0."""
    return replace(problem, model=partial(quadratic, hessian=numbered(index)))
