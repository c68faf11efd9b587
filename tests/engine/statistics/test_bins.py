"""Bins of values against a search among the edges in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cockpit.core.errors import CockpitError
from cockpit.engine.statistics.bins import FEW, Bins

BINS = [
    Bins(100, -2.0, 2.0),
    Bins(14, -0.9, 0.9),
    Bins(7, -0.5, 1.0),
    Bins(1, -1.0, 1.0),
    Bins(10, 0.5, 2.0),
    Bins(1000, -1e-6, 1e-6),
    Bins(50, 1e4, 1e4 + 1),
    Bins(3000, -1e5, 3e5),
    Bins(20, -1e-40, 1e-40),
    Bins(20, -1e39, 1e39),
]


def expected(bins: Bins, values: torch.Tensor) -> np.ndarray:
    return np.searchsorted(bins.edges[1:-1], values.double().numpy(), side="right")


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [100, 2 * FEW])
def test_index(bins: Bins, dtype: torch.dtype, count: int) -> None:
    """Also of values on edges, beside them, far away and infinite."""
    generator = torch.Generator().manual_seed(0)
    values = (torch.rand(count, generator=generator, dtype=torch.float64) * 1.4 - 0.2) * (bins.high - bins.low)
    values = (values + bins.low).to(dtype)
    edges = torch.from_numpy(bins.edges).to(dtype)
    infinity = torch.tensor(float("inf"), dtype=dtype)
    odd = torch.cat([edges, torch.nextafter(edges, infinity), torch.nextafter(edges, -infinity)])
    few = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float("inf"), -float("inf"), 3e38, -3e38], dtype=dtype)
    values = torch.cat([values, odd, few])
    found = bins.index(values)
    assert found.dtype == torch.int32
    np.testing.assert_array_equal(found, expected(bins, values))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_compared_with_the_edges_themselves(dtype: torch.dtype) -> None:
    bins, values = Bins(14, -0.9, 0.9), torch.linspace(-1, 1, 5000).to(dtype)
    np.testing.assert_array_equal(bins.index(values), expected(bins, values))


def test_index_of_a_matrix_that_is_not_contiguous() -> None:
    bins = Bins(10, -1.0, 1.0)
    values = torch.randn(200, 300, generator=torch.Generator().manual_seed(0)).mT
    np.testing.assert_array_equal(bins.index(values), expected(bins, values))


def test_nan_is_counted_in_the_last_bin() -> None:
    for count in (10, 2 * FEW):
        assert Bins(5, -1.0, 1.0).index(torch.full((count,), float("nan")))[0] == 4


@pytest.mark.parametrize("bins", BINS, ids=str)
def test_thresholds_compare_as_edges_do(bins: Bins) -> None:
    for edge, threshold in zip(bins.inner, bins.thresholds, strict=True):
        with np.errstate(over="ignore", under="ignore"):  # the edge may be beyond all float32
            below = np.nextafter(np.float32(threshold), np.float32(-np.inf))
        assert np.float64(np.float32(threshold)) == threshold
        assert threshold >= edge
        assert float(below) < edge


def test_zero_up_to_rounding_is_zero() -> None:
    assert np.linspace(-0.9, 0.9, 15)[7] != 0
    bins = Bins(14, -0.9, 0.9)
    assert bins.edges[7] == 0
    assert bins.index(torch.zeros(1)) == 7
    assert bins.near_zero[1:] == (6, 7)
    assert (bins.edges[0], bins.edges[-1]) == (-0.9, 0.9)


@pytest.mark.parametrize("bins", BINS, ids=str)
def test_inside_the_radius_signs_decide(bins: Bins) -> None:
    radius, below, zero = bins.near_zero
    near = min(radius, 1e300) * 0.9999
    assert expected(bins, torch.tensor([near, -near, 0.0], dtype=torch.float64)).tolist() == [zero, below, zero]


def test_reached() -> None:
    bins = Bins(4, -1.0, 1.0)
    assert list(bins.reached(-2, 2)) == [0, 1, 2]
    assert list(bins.reached(-0.5, 0.0)) == [1]
    assert list(bins.reached(0.0, 0.4)) == []


def test_no_bins() -> None:
    with pytest.raises(CockpitError, match="at least 1 bin"):
        Bins(0, -1.0, 1.0)
