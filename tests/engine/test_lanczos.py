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
