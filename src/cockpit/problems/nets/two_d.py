"""A function of two variables, tilted at random."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Function = Callable[[Tensor, Tensor], Tensor]


class TwoD(nn.Module):
    """A point in the plane; what a sample sees of the function there is tilted by its noise."""

    def __init__(self, function: Function, start: tuple[float, float]) -> None:
        super().__init__()
        self.function = function
        self.point = nn.Parameter(torch.tensor(start))

    def forward(self, noise: Tensor) -> Tensor:
        """f(u, v) + u x + v y of each sample, [N], for noise (x, y), [N, 2]."""
        points = self.point.expand_as(noise)
        return self.function(*points.unbind(1)) + (points * noise).sum(1)


def two_d(seed: int, function: Function, start: tuple[float, float]) -> nn.Module:
    """A point at the start of a function, whatever the seed."""
    return TwoD(function, start)


def values(outputs: Tensor, targets: object) -> Tensor:
    """Individual losses: the values of the function themselves."""
    return outputs
