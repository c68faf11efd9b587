"""Rosenbrock's function of two variables, with noise."""

from functools import partial

from torch import Tensor

from cockpit.problems._base import Problem
from cockpit.problems.data.generated import noise_2d
from cockpit.problems.nets.two_d import two_d, values


def rosenbrock(u: Tensor, v: Tensor) -> Tensor:
    """A bent valley whose floor falls to 0 at (1, 1)."""
    return (1 - u).square() + 100 * (v - u.square()).square()


two_d_rosenbrock = Problem(
    name="two_d_rosenbrock",
    summary="Rosenbrock's function of two variables, tilted by noise",
    model=partial(two_d, function=rosenbrock, start=(-0.5, 1.5)),
    data=noise_2d,
    losses=values,
)
