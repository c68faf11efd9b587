"""The largest eigenvalue against a dense decomposition."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine.curvature import lanczos
from cockpit.engine.curvature.lanczos import largest

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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rank", range(1, 8))
def test_an_operator_of_low_rank(rank: int, dtype: torch.dtype) -> None:
    """Krylov's space is soon complete (a linear model, a few samples): what comes next is made of rounding errors."""
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        factor = torch.randn(9, rank, generator=generator, dtype=torch.float64)
        matrix = torch.block_diag(factor @ factor.mT, factor @ factor.mT)
        expected = float(torch.linalg.eigvalsh(matrix)[-1])
        inside = matrix.to(dtype)
        start = torch.randn(len(inside), generator=generator, dtype=dtype)
        found = largest(lambda v, matrix=inside: matrix @ v, start, generator)  # type: ignore[misc]
        assert found.value == pytest.approx(expected, rel=1e-3), seed


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


def test_the_residual_and_the_value_belong_together() -> None:
    """Long enough for restarts: the value is as near to the largest eigenvalue as the residual says."""
    generator = torch.Generator().manual_seed(0)
    spectrum = torch.linspace(0, 1, 400, dtype=torch.float64)
    found = largest(lambda v: spectrum * v, torch.ones(400, dtype=torch.float64), generator)
    assert found.products > 20
    assert 0 <= 1 - found.value <= found.residual**2 / (spectrum[-1] - spectrum[-2])


def test_the_next_start_has_a_part_of_each_of_the_largest() -> None:
    generator = torch.Generator().manual_seed(0)
    spectrum = torch.cat([torch.rand(300, generator=generator), torch.tensor([3.0, 4.0, 5.0])]).double()
    found = largest(lambda v: spectrum * v, torch.ones(303, dtype=torch.float64), generator)
    assert float(found.vector.norm()) == pytest.approx(1)
    parts = found.vector[-3:].abs()
    assert (parts / parts[-1]).tolist() == pytest.approx([1 / 3, 1 / 2, 1], rel=1e-3)


@pytest.mark.parametrize("gap", [0.002, 0.01, 0.05, 0.2])
def test_eigenvalues_that_change_places_are_found(gap: float) -> None:
    """The start has no more of the eigenvector than the step before put there, and noise as of a large net."""
    generator = torch.Generator().manual_seed(0)
    bulk = torch.rand(297, generator=generator, dtype=torch.float64) * 1.6 - 0.8
    top = torch.tensor([1 - 2 * gap, 1 - gap, 1.0], dtype=torch.float64)
    noise = torch.randn(300, generator=generator, dtype=torch.float64)
    before, after = torch.cat([bulk, top]), torch.cat([bulk, top.flip(0)])
    start = largest(lambda v: before * v, noise, generator).vector + 1e-4 * noise / noise.norm()
    assert largest(lambda v: after * v, start, generator).value == pytest.approx(1, rel=1e-3)


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
    with pytest.raises(Undefined, match="not finite"):
        largest(lambda v: v * float("nan"), torch.ones(5), torch.Generator())


def test_long_vectors_in_single_precision() -> None:
    """Sums of millions of terms: to six digits all the same."""
    size, generator = 3_000_000, torch.Generator().manual_seed(0)
    spectrum = torch.rand(size, generator=generator)
    spectrum[12345] = 1.5
    found = largest(lambda v: spectrum * v, torch.randn(size, generator=generator), generator)
    assert found.value == pytest.approx(1.5, rel=1e-5)
    assert float(found.vector.double().norm()) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("vectors", [5, 6, 20])
def test_few_vectors_find_the_same(vectors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanczos, "MOST", vectors)
    spectrum = torch.linspace(-1, 1, 300, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    found = largest(lambda v: spectrum * v, torch.ones_like(spectrum), generator)
    assert found.value == pytest.approx(1, rel=1e-3)


def test_rounding_errors_are_not_called_a_wrong_operation() -> None:
    """Images are rounded to a grid that is coarse beside them: symmetric, but for rounding."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(30, 30, generator=generator, dtype=torch.float64)
    matrix = root + root.mT

    def rounded(vector: Tensor) -> Tensor:
        return (matrix @ vector / 4).round() * 4

    with pytest.raises(Undefined, match="rounding errors"):
        largest(rounded, torch.randn(30, generator=generator, dtype=torch.float64), generator)
