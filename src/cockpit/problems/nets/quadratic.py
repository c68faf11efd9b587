"""A noisy quadratic form whose Hessian has ninety small eigenvalues and ten large ones."""

from functools import lru_cache

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import NDArray
from torch import Tensor, nn

from cockpit.core.errors import CockpitError

SMALL, LARGE = 90, 10  # numbers of eigenvalues
SEED = 42  # of all Hessians


def rotation(size: int, random: RandomState) -> NDArray[np.float64]:
    """A rotation drawn by the subgroup algorithm (Diaconis and Shahshahani, 1987): one dimension more at a time."""
    angle = 2 * np.pi * random.uniform()
    turned = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    for dimension in range(3, size + 1):
        direction = random.normal(size=dimension)
        mirror = -direction / np.linalg.norm(direction)
        mirror[0] += 1
        mirror /= np.linalg.norm(mirror)
        larger = np.eye(dimension)
        larger[1:, 1:] = turned
        turned = larger - 2 * np.outer(mirror, mirror @ larger)
    return -turned


def numbered(index: int) -> int:
    """The number of a matrix, if it is one."""
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise CockpitError(f"hessian={index!r}: give the number of a matrix, 0 or more")
    return index


def factor(index: int = 0) -> NDArray[np.float64]:
    """A with Hessian A^T A, the ``index``-th that one generator gives; not to be written on."""
    return _factors(1 << numbered(index).bit_length())[index]


@lru_cache(8)
def _factors(count: int) -> tuple[NDArray[np.float64], ...]:
    """The first matrices, one after the other."""
    random, found = RandomState(SEED), []
    for _ in range(count):
        eigenvalues = np.concatenate([random.uniform(0, 1, SMALL), random.uniform(30, 60, LARGE)])
        found.append(np.sqrt(eigenvalues)[:, None] * rotation(SMALL + LARGE, random))
        found[-1].flags.writeable = False
    return tuple(found)


class Quadratic(nn.Module):
    """A vector theta; the outputs are A (theta - x), half of whose squared norm is the loss."""

    factor: Tensor

    def __init__(self, matrix: NDArray[np.float64]) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.ones(len(matrix)))
        self.register_buffer("factor", torch.tensor(matrix, dtype=torch.get_default_dtype()))

    def forward(self, centres: Tensor) -> Tensor:
        """Map x, [N, 100], to A (theta - x), [N, 100]."""
        return (self.theta - centres) @ self.factor.T


def quadratic(seed: int, hessian: int = 0) -> nn.Module:
    """Start at a vector of ones, whatever the seed."""
    return Quadratic(factor(hessian))


def losses(outputs: Tensor, targets: object) -> Tensor:
    """0.5 (theta - x)^T A^T A (theta - x) of each sample, [N]."""
    return 0.5 * outputs.square().sum(1)
