"""Statistics of every form against formed gradients in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from cockpit.engine import statistics
from cockpit.engine.binning import Bins
from cockpit.engine.statistics import Wanted
from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Indexed, Summed, combine, scale

N = 7


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def factored(positions: int = 1, groups: int = 1) -> Factored:
    return Factored((groups * 3, 4), draw(N, groups, positions, 3), draw(N, groups, positions, 4))


def convolved() -> Convolved:
    return Convolved((4, 2, 3), draw(N, 1, 4, 9), draw(N, 1, 4, 4), 2, (2,), (1,), (2,))


def indexed() -> Indexed:
    sample, index = torch.arange(N).repeat(3), torch.tensor([0, 1, 2, 0, 1, 5, 5] * 3)
    return Indexed((6, 2), N, sample, index, draw(3 * N, 2))


FORMS: dict[str, Callable[[], AnyForm]] = {
    "outer": factored,
    "few_positions": lambda: factored(2),
    "many_positions": lambda: factored(30),
    "grouped": lambda: factored(2, 2),
    "convolved": convolved,
    "indexed": indexed,
    "dense": lambda: Dense(draw(N, 5, 2)),
    "summed": lambda: combine([indexed(), Dense(draw(N, 6, 2))]),
    "joined": lambda: combine([factored(1), factored(3)]),
}
BINS = [Bins(100, -2.0, 2.0), Bins(7, -0.5, 1.0), Bins(1, -1.0, 1.0), Bins(10, 0.5, 2.0), Bins(4, -1.0, 1.0)]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", [1e-3, 1.0, 10.0])
def test_everything_at_once(name: str, size: float) -> None:
    form = scale(FORMS[name](), size)
    g = form.form(0, N).reshape(N, -1)
    theta, v = draw(*form.shape), draw(*form.shape, 1)[..., 0]
    pairs = tuple((one, other) for one in BINS[:2] for other in (Bins(50, -2.0, 2.0),))
    wanted = Wanted(sq_norm=True, sum_sq=True, abs_max=True, hist1d=tuple(BINS), hist2d=pairs)
    found = statistics.compute(form, theta, wanted, {"v": v})
    torch.testing.assert_close(found.sq_norm, g.square().sum(1))
    torch.testing.assert_close(found.dots["v"], g @ v.reshape(-1))
    assert found.sum_sq is not None
    assert found.abs_max is not None
    torch.testing.assert_close(found.sum_sq.reshape(-1), g.square().sum(0))
    torch.testing.assert_close(found.abs_max, g.abs().max())
    for bins in BINS:
        clamped = g.clamp(bins.low, bins.high).numpy()
        expected, _ = np.histogram(clamped, bins=bins.count, range=(bins.low, bins.high))
        np.testing.assert_array_equal(found.hist1d[bins], expected)
    for one, other in pairs:
        each = np.broadcast_to(theta.reshape(1, -1).numpy(), g.shape)
        values = [g.clamp(one.low, one.high).numpy().ravel(), each.clip(other.low, other.high).ravel()]
        limits = [(one.low, one.high), (other.low, other.high)]
        expected, *_ = np.histogram2d(*values, bins=(one.count, other.count), range=limits)
        np.testing.assert_array_equal(found.hist2d[one, other], expected)
        np.testing.assert_array_equal(found.hist2d[one, other].sum(1), found.hist1d[one])


@pytest.mark.parametrize("name", FORMS)
def test_norms_and_dots_alone(name: str) -> None:
    form = FORMS[name]()
    g, v = form.form(0, N).reshape(N, -1), draw(*form.shape)
    found = statistics.compute(form, v, Wanted(sq_norm=True), {"v": v})
    torch.testing.assert_close(found.sq_norm, g.square().sum(1))
    torch.testing.assert_close(found.dots["v"], g @ v.reshape(-1))
    torch.testing.assert_close(statistics.mean_gradient(form).reshape(-1), g.mean(0))


def test_single_precision_counts_tiny_negatives_below_zero() -> None:
    bins = Bins(100, -2.0, 2.0)
    g = torch.tensor([[-1e-30, 1e-30, 0.0, -0.04, 0.04, -0.039999]])
    found = statistics.compute(Dense(g), g[0], Wanted(hist1d=(bins,)), {}).hist1d[bins]
    expected, _ = np.histogram(g.double().numpy(), bins=100, range=(-2.0, 2.0))
    np.testing.assert_array_equal(found, expected)


def test_counts_beyond_the_exact_range_of_single_precision() -> None:
    rows, bins = torch.full((2, 1, 1, 5000), 1e-3), Bins(2, -1.0, 1.0)
    form = Factored((5000, 5000), rows, torch.ones(2, 1, 1, 5000))
    found = statistics.compute(form, torch.zeros(5000, 5000), Wanted(hist1d=(bins,)), {}).hist1d[bins]
    assert found.tolist() == [0, 2 * 5000 * 5000]
    assert 2 * 5000 * 5000 > 2**24


def test_summed_is_what_unlike_uses_become() -> None:
    assert isinstance(combine([indexed(), Dense(draw(N, 6, 2))]), Summed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.01, 0.1, 1.0, 30.0])
def test_wide_gradients_fall_into_the_same_bins(dtype: torch.dtype, size: float) -> None:
    """Also where most elements lie beyond the first edges, and some exactly on one."""
    bins = Bins(100, -2.0, 2.0)
    g = torch.randn(50, 400, generator=torch.Generator().manual_seed(0), dtype=dtype) * size
    g[0, :101] = torch.linspace(-2, 2, 101, dtype=dtype)
    g[1, :99] = torch.nextafter(torch.from_numpy(bins.edges[1:-1]).to(dtype), torch.tensor(9.0, dtype=dtype))
    found = statistics.compute(Dense(g), g[0], Wanted(hist1d=(bins,)), {}).hist1d[bins]
    inner = bins.edges[1:-1]
    expected = np.bincount(np.searchsorted(inner, g.double().numpy().ravel(), side="right"), minlength=100)
    np.testing.assert_array_equal(found, expected)
