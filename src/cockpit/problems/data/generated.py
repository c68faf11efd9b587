"""Data that are drawn instead of measured: noise for functions of two parameters and for a quadratic form."""

import numpy as np
import torch
from torch import Tensor

from cockpit.problems._base import Place, Splits, Variant
from cockpit.problems.data.batches import Resident
from cockpit.problems.data.splits import train_eval
from cockpit.problems.data.study import OPERATION, WITHOUT_VALIDATION, Studied

TRAIN, TEST, VALID = 42, 43, 44  # seeds
POINTS_2D = 10_000
POINTS, DIMENSIONS, DEVIATION = 1_000, 100, 0.6  # of the quadratic problem


def noise_2d(place: Place, variant: Variant) -> Splits:
    """Slopes x, y ~ N(0, 1) that make a function of two parameters stochastic, [N, 2]; none (zeros) in the test set."""
    return noise(pairs(TRAIN), pairs(VALID), torch.zeros(POINTS_2D, 2), variant)


def quadratic(place: Place, variant: Variant) -> Splits:
    """Centres x ~ N(0, 0.6²) of a quadratic form, [N, 100]."""
    return noise(centres(TRAIN), centres(VALID), centres(TEST), variant)


def pairs(seed: int) -> Tensor:
    """All x are drawn before all y."""
    draw = np.random.RandomState(seed)
    columns = [draw.normal(0.0, 1.0, POINTS_2D) for _ in "xy"]
    return torch.from_numpy(np.stack(columns, axis=1).astype(np.float32))


def centres(seed: int) -> Tensor:
    """Points around zero."""
    points = np.random.RandomState(seed).normal(0.0, DEVIATION, (POINTS, DIMENSIONS))
    return torch.from_numpy(points.astype(np.float32))


def noise(train: Tensor, valid: Tensor, test: Tensor, variant: Variant) -> Splits:
    """Splits of points without labels: the targets are zeros, [N]."""
    operation = OPERATION if variant.validation else WITHOUT_VALIDATION
    order = Studied(len(train), operation) if variant.order == "study" else None
    trained = Resident(train, torch.zeros(len(train)), order=order)
    validated, tested = (Resident(points, torch.zeros(len(points))) for points in (valid, test))
    return Splits(trained, train_eval(trained, tested), validated if variant.validation else None, tested)
