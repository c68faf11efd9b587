"""The largest eigenvalue against a dense decomposition."""

from __future__ import annotations

import pytest
import torch

from cockpit.core.errors import Undefined
from cockpit.engine.lanczos import largest

CASES = {
    "generic": torch.linspace(-3, 2, 40),
    "close": torch.cat([torch.linspace(-1, 0.5, 60), torch.tensor([0.99, 1.0])]),
    "negative": -torch.linspace(1, 9, 30),
    "dominated": torch.tensor([-100.0, -50.0, 0.1, 1.0]),
    "zero": torch.zeros(5),
    "one": torch.tensor([3.0]),
    "repeated": torch.tensor([2.0] * 6 + [5.0] * 3),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_within_the_tolerance(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    spectrum = CASES[name].to(dtype)
    basis, _ = torch.linalg.qr(torch.randn(len(spectrum), len(spectrum), generator=generator, dtype=dtype))
    matrix = basis @ torch.diag(spectrum) @ basis.mT
    start = torch.randn(len(spectrum), generator=generator, dtype=dtype)
    before = torch.get_rng_state()
    found = largest(lambda v: matrix @ v, start, generator)
    assert torch.equal(before, torch.get_rng_state())
    assert found.value == pytest.approx(float(spectrum.max()), rel=1e-3, abs=1e-5)
    assert found.products <= len(spectrum)


def test_a_warm_start_takes_fewer_products() -> None:
    generator = torch.Generator().manual_seed(0)
    spectrum = torch.cat([torch.rand(300, generator=generator), torch.tensor([1.2, 1.5])]).double()
    noise = torch.randn(302, generator=generator, dtype=torch.float64)
    cold = largest(lambda v: spectrum * v, noise, generator)
    warm = largest(lambda v: spectrum * 1.01 * v, cold.vector + 0.01 * noise / noise.norm(), generator)
    assert warm.value == pytest.approx(1.515, rel=1e-3)
    assert warm.products < cold.products


def test_an_operator_that_is_not_symmetric_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(20, 20, generator=generator, dtype=torch.float64)
    with pytest.raises(Undefined, match="symmetric"):
        largest(lambda v: matrix @ v, torch.ones(20, dtype=torch.float64), generator)


def spiked(seed: int, drift: float) -> torch.Tensor:
    """A matrix like the Hessian of a network: a bulk around zero and a few large eigenvalues, a little turned."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(200, 200, generator=generator, dtype=torch.float64)
    basis, _ = torch.linalg.qr(torch.eye(200, dtype=torch.float64) + drift * noise / 200**0.5)
    spectrum = torch.cat([torch.linspace(-0.3, 0.3, 190), torch.linspace(1, 8, 10)]).double()
    return basis @ torch.diag(spectrum) @ basis.mT


def test_near_the_eigenvector_fewer_products_are_enough() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(200, generator=generator, dtype=torch.float64)
    start = largest(lambda v: spiked(0, 0.0) @ v, noise, generator).vector + 0.1 * noise / noise.norm()
    for seed in range(1, 6):
        matrix = spiked(seed, 0.2)
        far, near = (largest(lambda v, m=matrix: m @ v, start, generator, near=n) for n in (False, True))
        assert near.value == pytest.approx(8, rel=1e-3)
        assert far.value == pytest.approx(8, rel=1e-3)
        assert 4 <= near.products < far.products
        assert near.residual <= 3e-3 * 8


def test_the_residual_and_the_vector_belong_together() -> None:
    """Long enough for several blocks of the basis."""
    generator = torch.Generator().manual_seed(0)
    spectrum = torch.linspace(0, 1, 400, dtype=torch.float64)
    found = largest(lambda v: spectrum * v, torch.ones(400, dtype=torch.float64), generator)
    assert found.products > 20
    assert float(found.vector.norm()) == pytest.approx(1)
    residual = float((spectrum * found.vector - found.value * found.vector).norm())
    assert residual == pytest.approx(found.residual, rel=1e-6)


def test_a_start_at_the_second_eigenvector_looks_further() -> None:
    """The step before may have ended where now the second largest eigenvalue is."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.diag(torch.cat([torch.rand(298, generator=generator), torch.tensor([2.0, 2.2])]).double())
    noise = torch.randn(300, generator=generator, dtype=torch.float64)
    start = torch.zeros(300, dtype=torch.float64)
    start[298] = 1
    found = largest(lambda v: matrix @ v, start + 0.1 * noise / noise.norm(), generator)
    assert found.value == pytest.approx(2.2, rel=1e-3)


def test_what_is_not_finite_is_said() -> None:
    generator = torch.Generator().manual_seed(0)
    found = largest(lambda v: v * float("nan"), torch.ones(5), generator)
    assert found.value != found.value
