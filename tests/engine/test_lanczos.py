"""The largest eigenvalue against a dense decomposition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from cockpit.core.errors import Undefined
from cockpit.engine import lanczos
from cockpit.engine.lanczos import Basis, Eigenpair
from cockpit.engine.lanczos import largest as largest_in
from cockpit.engine.recorded_basis import RecordedBasis

CASES = {
    "generic": torch.linspace(-3, 2, 40),
    "close": torch.cat([torch.linspace(-1, 0.5, 60), torch.tensor([0.99, 1.0])]),
    "negative": -torch.linspace(1, 9, 30),
    "dominated": torch.tensor([-100.0, -50.0, 0.1, 1.0]),
    "zero": torch.zeros(5),
    "one": torch.tensor([3.0]),
    "repeated": torch.tensor([2.0] * 6 + [5.0] * 3),
}


def largest(product: Callable[[Tensor], Tensor], start: Tensor, generator: torch.Generator) -> Eigenpair:
    """From a basis of one vector."""
    return largest_in(Basis(product, start), generator)


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


def test_a_basis_of_long_vectors_is_orthonormal() -> None:
    """Sums of millions of terms in single precision: to six digits all the same."""
    generator, size = torch.Generator().manual_seed(0), 3_000_000
    images = list[Tensor]()

    def product(vector: Tensor) -> Tensor:
        images.append(torch.randn(size, generator=generator) + 2000 * vector)
        return images[-1]

    basis = Basis(product, torch.randn(size, generator=generator))
    for _ in range(2):
        basis.multiply()
        beta = float(basis.settle(basis.size)[-1])
        assert beta == pytest.approx(float(images[-1].double().norm()), rel=1e-6)
    rows = torch.stack([basis.combine(unit) for unit in np.eye(3)]).double()
    torch.testing.assert_close(rows @ rows.mT, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-6)


def inner_products(product: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Of all pairs of a basis of twelve vectors."""
    basis = Basis(product, start)
    for _ in range(11):
        basis.multiply()
        basis.settle(min(basis.size, 2))
    rows = torch.stack([basis.combine(unit) for unit in np.eye(12)]).double()
    return rows @ rows.mT


@pytest.mark.parametrize("top", [1.5, 40.0])
def test_a_basis_stays_orthonormal_where_errors_of_every_other_vector_are_left(top: float) -> None:
    """In single precision, also where the largest eigenvector is found soon: along it errors grow."""
    spectrum = torch.linspace(-1, 1, 20_000)
    spectrum[-1] = top
    start = torch.randn(20_000, generator=torch.Generator().manual_seed(0))
    found = inner_products(lambda v: spectrum * v, start)
    torch.testing.assert_close(found, torch.eye(12, dtype=torch.float64), rtol=0, atol=1e-4)


def test_a_basis_of_products_that_are_not_exact_is_orthonormal() -> None:
    """In half precision images have much more than rounding errors along vectors far back."""
    generator, spectrum = torch.Generator().manual_seed(0), torch.linspace(-1, 2, 3000)
    wrong = 1e-4 * torch.randn(3000, 3000, generator=generator)
    found = inner_products(lambda v: spectrum * v + wrong @ v, torch.randn(3000, generator=generator))
    torch.testing.assert_close(found, torch.eye(12, dtype=torch.float64), rtol=0, atol=1e-5)


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


@pytest.mark.parametrize("ahead", [2, 4, 7])
@pytest.mark.parametrize("name", [*CASES, "long"])
def test_looking_at_several_products_together_finds_the_same(
    name: str, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spectrum = CASES.get(name, torch.linspace(-1, 1, 300)).double()

    def found() -> Eigenpair:
        generator = torch.Generator().manual_seed(0)
        start = torch.randn(len(spectrum), generator=generator, dtype=torch.float64)
        return largest(lambda v: spectrum * v, start, generator)

    one_by_one = found()
    monkeypatch.setitem(lanczos.AHEAD, "cpu", ahead)
    together = found()
    assert together.value == pytest.approx(one_by_one.value, rel=1e-6, abs=1e-12)
    assert one_by_one.products <= together.products < one_by_one.products + max(ahead, lanczos.LEAST)


def test_numbers_are_sent_before_the_next_product_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent behind a product arrives behind it: the device would stand idle while numbers are looked at."""
    monkeypatch.setitem(lanczos.AHEAD, "cpu", 4)
    told, send = list[str](), lanczos._sent
    monkeypatch.setattr(lanczos, "_sent", lambda found: told.append("sent") or send(found))
    matrix = torch.diag(torch.arange(40.0, dtype=torch.float64))

    def product(vector: Tensor) -> Tensor:
        told.append("product")
        return matrix @ vector

    generator = torch.Generator().manual_seed(0)
    found = largest(product, torch.randn(40, generator=generator, dtype=torch.float64), generator)
    sent = [place for place, what in enumerate(told) if what == "sent"]
    assert len(sent) > 1
    assert sent[0] == lanczos.LEAST  # as many products as are looked at, and not one more
    assert told[sent[0] + 1] == told[-1] == "product"
    assert told.count("product") == found.products + 1  # the last was begun in vain


@pytest.mark.parametrize("ahead", [1, 4])
@pytest.mark.parametrize("name", [*CASES, "long"])
def test_a_recorded_basis_finds_the_same_each_time(name: str, ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in a row with the same recordings: nothing of one search is left for the next."""
    monkeypatch.setitem(lanczos.AHEAD, "cpu", ahead)
    spectrum = CASES.get(name, torch.linspace(-1, 1, 300)).double()
    vector, image = torch.zeros_like(spectrum), torch.zeros_like(spectrum)
    basis = RecordedBasis(lambda: torch.mul(spectrum, vector, out=image), vector, lambda function, device: function)
    for seed in range(2):
        expected, found = (torch.Generator().manual_seed(seed) for _ in range(2))
        starts = [torch.randn(len(spectrum), generator=g, dtype=torch.float64) for g in (expected, found)]
        wanted = largest(lambda v: spectrum * v, starts[0], expected)
        recorded = largest_in(basis.begin(starts[1]), found)
        assert recorded.value == pytest.approx(wanted.value, rel=1e-6, abs=1e-12)
        assert recorded.products == wanted.products
        assert float(recorded.vector.norm()) == pytest.approx(1)
