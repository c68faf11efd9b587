"""Histograms of numbers that are there: every way to count them gives the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from cockpit.engine import histograms
from cockpit.engine.histograms import Axis, Joint
from cockpit.engine.statistics.bins import Bins
from cockpit.layers.forms import Scratch

BINS = [Bins(100, -2.0, 2.0), Bins(7, -0.5, 1.0), Bins(1, -1.0, 1.0), Bins(10, 0.5, 2.0), Bins(14, -0.9, 0.9)]
PARAMETER = Bins(6, -1.0, 1.0)


def bin_of(values: Tensor, bins: Bins) -> np.ndarray:
    return np.searchsorted(bins.edges[1:-1], values.double().numpy().ravel(), side="right")


def drawn(size: float, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=dtype) * size
    x.view(-1)[::7] = 0.0
    x.view(-1)[::11] = -0.0
    x.view(-1)[::13] = 0.04  # an edge, but not in single precision
    return x


@pytest.fixture(params=["compared", "compared by threads", "looked up", "chosen"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make one of the ways look cheap."""
    if request.param == "compared by threads":
        monkeypatch.setattr(histograms, "MEDIUM", 0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    if request.param != "chosen":
        for name in ("PASS", "PASS_EACH"):
            monkeypatch.setattr(histograms, name, 1.0 if request.param == "looked up" else 0.0)
    return str(request.param)


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("size", [1e-40, 1e-3, 0.1, 30.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_count(way: str, bins: Bins, size: float, dtype: torch.dtype) -> None:
    g = drawn(size, 40, 500, dtype=dtype)
    expected = np.bincount(bin_of(g, bins), minlength=bins.count)
    np.testing.assert_array_equal(histograms.count(g, bins, histograms.extremes(g), Scratch()), expected)
    np.testing.assert_array_equal(histograms.looked_up(g, bins), expected)


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("size", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("parameter_size", [1e-3, 0.3, 3.0])
def test_joint(way: str, bins: Bins, size: float, parameter_size: float) -> None:
    """Over chunks of unlike sizes, so that some reach more edges than others."""
    theta = drawn(parameter_size, 300)
    axis, scratch = Axis(theta, PARAMETER), Scratch()
    joint, parts = Joint(axis, bins), [drawn(size * scale, n, 300) for n, scale in ((5, 1.0), (2, 0.01), (7, 4.0))]
    for g in parts:
        joint.add(g, histograms.extremes(g), scratch)
    g = torch.cat(parts)
    both = bin_of(g, bins) * PARAMETER.count + bin_of(theta.expand_as(g), PARAMETER)
    expected = np.bincount(both, minlength=bins.count * PARAMETER.count).reshape(bins.count, -1)
    np.testing.assert_array_equal(joint.counts(scratch), expected)
    np.testing.assert_array_equal(histograms.looked_up_2d(g, theta, bins, PARAMETER), expected)


@pytest.mark.parametrize("size", [1e-3, 0.3, 3.0])
def test_weigh(way: str, size: float) -> None:
    theta, weights = drawn(size, 30, 20), torch.arange(600.0).view(30, 20)
    found = Axis(theta, PARAMETER).weigh(weights, Scratch())
    expected = np.bincount(bin_of(theta, PARAMETER), weights.numpy().ravel(), PARAMETER.count)
    np.testing.assert_array_equal(found, expected)


def test_weigh_beyond_the_exact_range_of_single_precision() -> None:
    found = Axis(torch.zeros(3000, 1000), PARAMETER).weigh(torch.full((3000, 1000), 127.0), Scratch())
    assert found.tolist() == [0, 0, 0, 127 * 3_000_000, 0, 0]


def test_total_beyond_the_exact_range_of_single_precision() -> None:
    flags = torch.ones(2**24 + 3)
    assert histograms.total(flags) == 2**24 + 3


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_counted_somewhere(way: str, odd: float) -> None:
    g, scratch, bins = drawn(0.1, 4, 30), Scratch(), BINS[0]
    g[1, 2] = odd
    within = histograms.extremes(g)
    assert histograms.count(g, bins, within, scratch).sum() == 120
    joint = Joint(Axis(drawn(1.0, 30), PARAMETER), bins)
    joint.add(g, within, scratch)
    assert int(joint.counts(scratch).sum()) == 120


def test_nothing_to_count() -> None:
    g = torch.zeros(0, 3)
    assert histograms.count(g, BINS[0], histograms.extremes(g), Scratch()).sum() == 0
