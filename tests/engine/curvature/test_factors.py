"""The softmax's factors where a prediction is almost sure."""

from __future__ import annotations

import pytest
import torch

from cockpit.engine.curvature.factors import cholesky_of_softmax, mixed_cholesky


@pytest.mark.parametrize("shift", [0.0, 40.0, 800.0])
def test_the_factor_of_a_softmax_that_is_almost_sure(shift: float) -> None:
    """Where p is 1 but for rounding, p_j (1 - p_j) has no digits left; the factor has them all."""
    logits = torch.tensor([[shift, 1.0, 0.0, -1.0], [-1.0, 0.0, shift, 1.0], [0.0, 0.0, 0.0, -shift]]).double()
    p = logits.softmax(1)
    factor = cholesky_of_softmax(p)
    assert factor.shape == (3, 4, 3)
    assert bool(torch.isfinite(factor).all())
    others = torch.stack([row[[j for j in range(4) if j != k]].sum() for row in p for k in range(4)]).reshape(3, 4)
    product, diagonal = factor @ factor.mT, p * others
    torch.testing.assert_close(product.diagonal(dim1=1, dim2=2), diagonal, rtol=1e-12, atol=0)
    beside = product + p[:, :, None] * p[:, None, :] - torch.diag_embed(product.diagonal(dim1=1, dim2=2) + p.square())
    size = (diagonal[:, :, None] * diagonal[:, None, :]).sqrt()
    assert bool((beside.abs() <= 1e-14 * size).all())


def test_a_mixture_of_columns_needs_no_columns() -> None:
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(6, 5, generator=generator, dtype=torch.float64).mul(4).softmax(1)
    signs = torch.randn(6, 5, generator=generator, dtype=torch.float64).sign()
    expected = torch.einsum("nck,nk->nc", cholesky_of_softmax(p), signs[:, :-1])
    torch.testing.assert_close(mixed_cholesky(p, signs), expected)
