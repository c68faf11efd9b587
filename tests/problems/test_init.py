"""Initial weights have the distribution that their name says."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from cockpit.problems.nets.init import SHRINKS, glorot_normal, glorot_uniform, initialise, seeded, truncated_normal


def test_truncated_normal_ends_at_two_deviations() -> None:
    with seeded(0):
        drawn = truncated_normal(0.03)(torch.empty(400, 500))
    assert float(drawn.abs().max()) <= 0.06
    assert float(drawn.abs().max()) > 0.0595
    assert float(drawn.mean()) == pytest.approx(0, abs=2e-4)
    assert float(drawn.std()) == pytest.approx(0.03 * SHRINKS, rel=0.01)


def test_the_deviation_of_a_truncated_normal_is_the_integral() -> None:
    x = np.linspace(-2, 2, 400_001)
    density = np.exp(-(x**2) / 2)
    assert math.sqrt((x**2 * density).sum() / density.sum()) == pytest.approx(SHRINKS, rel=1e-5)


def test_glorot_uniform_reaches_its_bound() -> None:
    with seeded(0):
        drawn = glorot_uniform(torch.empty(60, 40, 5, 5))  # fans 1000 and 1500
    bound = math.sqrt(6 / 2500)
    assert bound * 0.999 < float(drawn.abs().max()) <= bound
    assert float(drawn.square().mean()) == pytest.approx(2 / 2500, rel=0.02)


def test_glorot_normal_has_its_variance_after_the_cut() -> None:
    with seeded(0):
        drawn = glorot_normal(torch.empty(60, 40, 5, 5))
    assert float(drawn.square().mean()) == pytest.approx(2 / 2500, rel=0.02)
    assert float(drawn.abs().max()) <= 2 * math.sqrt(2 / 2500) / SHRINKS


def test_initialise_tells_dense_layers_from_convolutions_and_leaves_norms_alone() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ConvTranspose2d(2, 2, 3, bias=False), nn.Linear(4, 5)
    )

    initialise(model, lambda weight: nn.init.constant_(weight, 2.0), 0.5, lambda weight: nn.init.constant_(weight, 3.0))
    found = {name: set(parameter.unique().tolist()) for name, parameter in model.named_parameters()}
    assert found == {
        "0.weight": {2.0},
        "0.bias": {0.5},
        "1.weight": {1.0},
        "1.bias": {0.0},
        "2.weight": {2.0},
        "3.weight": {3.0},
        "3.bias": {0.5},
    }


def test_seeded_gives_the_random_state_back_even_after_an_error() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with suppress(RuntimeError), seeded(1):
        torch.rand(3)
        raise RuntimeError
    assert torch.equal(before, torch.get_rng_state())
    with seeded(1):
        first = torch.rand(3)
    with seeded(1):
        assert torch.equal(first, torch.rand(3))
