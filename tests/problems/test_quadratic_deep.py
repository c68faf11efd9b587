"""The quadratic of 100 dimensions: its matrices, and losses that published runs began with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from cockpit.problems._base import Place, Variant
from cockpit.problems.nets.quadratic import factor, rotation
from cockpit.problems.quadratic_deep import quadratic_deep, with_hessian

USED = 7 * 128  # points in complete batches


def centres(seed: int) -> Tensor:
    return torch.tensor(np.random.RandomState(seed).normal(0, 0.6, (1000, 100)), dtype=torch.float32)[:USED]


TEST, VALID = centres(43), centres(44)


@torch.no_grad()
def mean_loss(points: Tensor, theta: float | None = None, hessian: int = 0) -> float:
    problem = with_hessian(hessian) if hessian else quadratic_deep
    model = problem.model(0)
    if theta is not None:
        model.get_parameter("theta").fill_(theta)
    return float(problem.losses(model(points), None).double().mean())


def test_eigenvalues() -> None:
    found = np.linalg.eigvalsh(factor().T @ factor())
    assert found.sum() == pytest.approx(477.61, abs=0.005)
    assert found[-1] == pytest.approx(53.13, abs=0.005)
    assert found[0] == pytest.approx(0.0055, abs=5e-5)
    assert ((found[:90] < 1) & (found[:90] > 0)).all()
    assert (found[90:] > 30).all()


def test_a_rotation_keeps_lengths_and_orientation() -> None:
    for size in (2, 3, 20, 100):
        turned = rotation(size, np.random.RandomState(1))
        assert np.allclose(turned @ turned.T, np.eye(size))
        assert np.linalg.det(turned) == pytest.approx(1)
    assert not np.allclose(turned, rotation(100, np.random.RandomState(2)))


@pytest.mark.parametrize(("points", "expected"), [(TEST, 353.4468), (VALID, 353.8128)])
def test_initial_loss(points: Tensor, expected: float) -> None:
    assert mean_loss(points) == pytest.approx(expected, abs=1e-4)


def test_test_loss_at_zero() -> None:
    assert mean_loss(TEST, theta=0) == pytest.approx(86.926, abs=5e-4)


@pytest.mark.parametrize(("hessian", "expected"), [(1, 347.3582), (8, 195.2222), (23, 314.8037)])
def test_initial_loss_with_other_matrices_of_the_same_generator(hessian: int, expected: float) -> None:
    assert mean_loss(TEST, hessian=hessian) == pytest.approx(expected, abs=1e-4)


def test_losses_are_the_quadratic_form_of_each_point() -> None:
    model, hessian = quadratic_deep.model(0), factor().T @ factor()
    away = 1 - TEST[:5].double().numpy()
    expected = [0.5 * difference @ hessian @ difference for difference in away]
    found = quadratic_deep.losses(model(TEST[:5]), None)
    assert found.shape == (5,)
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


def test_the_gradient_is_the_hessian_times_the_mean_distance() -> None:
    model = quadratic_deep.model(0)
    quadratic_deep.losses(model(TEST), None).mean().backward()
    expected = factor().T @ factor() @ (1 - TEST.double().numpy().mean(0))
    gradient = model.get_parameter("theta").grad
    assert gradient is not None
    assert np.allclose(gradient.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_its_data_give_the_same_losses(tmp_path: Path) -> None:
    splits = quadratic_deep.data(Place(tmp_path), Variant())
    assert splits.valid is not None
    model = quadratic_deep.model(0)
    for batches, expected in ((splits.test, 353.4468), (splits.valid, 353.8128)):
        with torch.no_grad():
            found = [float(quadratic_deep.losses(model(x), y).mean()) for x, y in batches.epoch(128)]
        assert len(found) == 7
        assert np.mean(found) == pytest.approx(expected, abs=1e-3)
