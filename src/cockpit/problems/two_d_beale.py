"""Beale's function of two variables, with noise."""

from functools import partial

from torch import Tensor

from cockpit.problems._base import Problem
from cockpit.problems.data.generated import noise_2d
from cockpit.problems.nets.two_d import two_d, values


def beale(u: Tensor, v: Tensor) -> Tensor:
    """Three squares whose sum is 0 at (3, 0.5)."""
    return (1.5 - u + u * v).square() + (2.25 - u + u * v.square()).square() + (2.625 - u + u * v**3).square()


two_d_beale = Problem(
    name="two_d_beale",
    summary="Beale's function of two variables, tilted by noise",
    model=partial(two_d, function=beale, start=(-4.5, 4.5)),
    data=noise_2d,
    losses=values,
)
