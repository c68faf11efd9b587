"""The functions of two variables at points computed by hand, and at their minima."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from cockpit.problems import get
from cockpit.problems._base import Place, Variant

NAMES = ("two_d_beale", "two_d_branin", "two_d_rosenbrock")
POINTS = [
    ("two_d_beale", (0.0, 0.0), 1.5**2 + 2.25**2 + 2.625**2),
    ("two_d_beale", (1.0, 2.0), 2.5**2 + 5.25**2 + 9.625**2),
    ("two_d_beale", (3.0, 0.5), 0.0),
    ("two_d_branin", (0.0, 0.0), 36 + 10 * (1 - 1 / (8 * math.pi)) + 10),
    ("two_d_branin", (math.pi, 2.275), 0.397887),
    ("two_d_branin", (-math.pi, 12.275), 0.397887),
    ("two_d_branin", (9.42478, 2.475), 0.397887),
    ("two_d_rosenbrock", (0.0, 0.0), 1.0),
    ("two_d_rosenbrock", (2.0, 3.0), 101.0),
    ("two_d_rosenbrock", (1.0, 1.0), 0.0),
]
STARTS = {"two_d_beale": [-4.5, 4.5], "two_d_branin": [2.5, 12.5], "two_d_rosenbrock": [-0.5, 1.5]}
MINIMA = [point for point in POINTS if point[2] < 0.5]


@pytest.mark.parametrize(("name", "point", "expected"), POINTS)
def test_value_without_noise(name: str, point: tuple[float, float], expected: float) -> None:
    problem = get(name)
    model = problem.model(0)
    model.get_parameter("point").data = torch.tensor(point)
    found = problem.losses(model(torch.zeros(3, 2)), None)
    assert found.shape == (3,)
    assert found.tolist() == pytest.approx([expected] * 3, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("name", "point", "expected"), MINIMA)
def test_the_gradient_vanishes_at_a_minimum(name: str, point: tuple[float, float], expected: float) -> None:
    problem = get(name)
    model = problem.model(0)
    where = model.get_parameter("point")
    where.data = torch.tensor(point)
    problem.losses(model(torch.zeros(1, 2)), None).mean().backward()
    assert where.grad is not None
    assert where.grad.tolist() == pytest.approx([0, 0], abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_noise_tilts_what_each_sample_sees(name: str) -> None:
    problem = get(name)
    model = problem.model(0)
    u, v = STARTS[name]
    assert model.get_parameter("point").tolist() == [u, v]
    flat, tilted = problem.losses(model(torch.tensor([[0.0, 0.0], [2.0, -3.0]])), None).tolist()
    assert tilted - flat == pytest.approx(2 * u - 3 * v, rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_the_test_set_is_without_noise(name: str, tmp_path: Path) -> None:
    problem = get(name)
    model = problem.model(0)
    splits = problem.data(Place(tmp_path), Variant())
    inputs, targets = next(splits.test.epoch(5))
    assert problem.losses(model(inputs), targets).unique().numel() == 1
    inputs, targets = next(splits.train.epoch(5, torch.Generator().manual_seed(0)))
    assert problem.losses(model(inputs), targets).unique().numel() == 5
