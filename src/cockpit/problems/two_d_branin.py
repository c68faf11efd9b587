"""Branin's function of two variables, with noise."""

import math
from functools import partial

import torch
from torch import Tensor

from cockpit.problems._base import Problem
from cockpit.problems.data.generated import noise_2d
from cockpit.problems.nets.two_d import two_d, values


def branin(u: Tensor, v: Tensor) -> Tensor:
    """A valley with three minima of equal height."""
    valley = v - 5.1 / (4 * math.pi**2) * u.square() + 5 / math.pi * u - 6
    return valley.square() + 10 * (1 - 1 / (8 * math.pi)) * torch.cos(u) + 10


two_d_branin = Problem(
    name="two_d_branin",
    summary="Branin's function of two variables, tilted by noise",
    model=partial(two_d, function=branin, start=(2.5, 12.5)),
    data=noise_2d,
    losses=values,
)
