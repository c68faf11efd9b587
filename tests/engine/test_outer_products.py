"""Histograms of outer products against every product formed and binned on its own in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from cockpit.engine import outer_joint, outer_products, row_products
from cockpit.engine.histograms import Axis
from cockpit.engine.outer_joint import joint
from cockpit.engine.outer_products import Products
from cockpit.engine.statistics.bins import Bins

pytestmark = pytest.mark.usefixtures("loops")

BINS = {
    "usual": Bins(100, -2.0, 2.0),
    "coarse": Bins(40, -1.0, 1.0),
    "lopsided": Bins(7, -0.5, 1.0),
    "one": Bins(1, -1.0, 1.0),
    "positive": Bins(10, 0.5, 2.0),
    "negative": Bins(9, -3.0, -0.25),
    "tiny": Bins(20, -1e-41, 1e-41),
    "huge": Bins(20, -1e39, 1e39),
    "no_edge_at_zero": Bins(15, -0.9, 0.9),
    "rounded_zero": Bins(14, -0.9, 0.9),
    "rounded_guess": Bins(6, -0.7, 0.7),  # 0.7 * (6 / 1.4) < 3
}


def expected_1d(row: Tensor, col: Tensor, bins: Bins) -> np.ndarray:
    products = (row[:, :, None] * col[:, None, :]).double().numpy().ravel()
    return np.bincount(np.searchsorted(bins.edges[1:-1], products, side="right"), minlength=bins.count)


def expected_2d(row: Tensor, col: Tensor, theta: Tensor, bins: Bins, parameter: Bins) -> np.ndarray:
    products = (row[:, :, None] * col[:, None, :]).double().numpy()
    each = np.broadcast_to(theta.double().numpy(), products.shape)
    one, other = (
        np.searchsorted(b.edges[1:-1], x.ravel(), side="right") for b, x in ((bins, products), (parameter, each))
    )
    return np.bincount(one * parameter.count + other, minlength=bins.count * parameter.count).reshape(bins.count, -1)


def drawn(seed: int) -> tuple[Tensor, Tensor]:
    """Factors of any shape and size, with zeros of both signs, repeated numbers and numbers that underflow."""
    generator = torch.Generator().manual_seed(seed)

    def whole(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    samples, outputs, inputs = whole(1, 9), whole(1, 12), whole(1, 40)
    factors = []
    for width in (outputs, inputs):
        x = torch.randn(samples, width, generator=generator)
        x *= 10.0 ** whole(-6, 3)
        kind = whole(0, 6)
        if kind == 0:
            x = x.abs()
        if kind == 1:
            x = x.relu()
        if kind == 2:
            x *= 10.0 ** torch.randint(-44, 2, x.shape, generator=generator)
        if kind == 3:
            x = (x * 8).round() / 8
        if kind == 4:
            x = torch.where(torch.rand(x.shape, generator=generator) < 0.5, -0.0, x)
        factors.append(x)
    return factors[0], factors[1]


@pytest.fixture(params=["formed", "compared", "sorted"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make one of the three ways to count the products of large rows look cheap."""
    monkeypatch.setattr(outer_products, "FORM_EACH", 0.0 if request.param == "formed" else 1.0)
    monkeypatch.setattr(outer_products, "FORM_EDGE", 0.0)
    monkeypatch.setattr(row_products, "COMPARE", 0.0 if request.param == "compared" else 1.0)
    return str(request.param)


@pytest.mark.parametrize("name", BINS)
def test_any_factors(way: str, name: str) -> None:
    bins = BINS[name]
    for seed in range(60):
        row, col = drawn(seed)
        found = Products(row, col).histogram(bins)
        np.testing.assert_array_equal(found, expected_1d(row, col, bins), err_msg=f"seed {seed}")


@pytest.mark.parametrize("name", BINS)
@pytest.mark.parametrize("parameter", [Bins(5, -1.0, 1.0), Bins(4, -1.0, 1.0), Bins(2, 3.0, 4.0)], ids=str)
@pytest.mark.parametrize("looked_up", [True, False])
def test_any_factors_jointly(name: str, parameter: Bins, looked_up: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer_joint, "LOOK_UP", 0.0 if looked_up else 1.0)
    monkeypatch.setattr(outer_joint, "BLOCK", 100)
    bins = BINS[name]
    for seed in range(15):
        row, col = drawn(seed)
        theta = torch.randn(row.shape[1], col.shape[1], generator=torch.Generator().manual_seed(seed))
        for size in (1e-3, 1.0):
            found = joint(Products(row, col), Axis(theta * size, parameter), bins)
            np.testing.assert_array_equal(
                found, expected_2d(row, col, theta * size, bins, parameter), err_msg=f"{seed}"
            )


def test_products_on_edges_and_beside_them(way: str) -> None:
    """Columns chosen so that rounded products fall on an edge, or one step to either side of it."""
    generator = torch.Generator().manual_seed(0)
    for bins in (BINS["usual"], BINS["coarse"], BINS["lopsided"]):
        row = torch.randn(30, 4, generator=generator) * 3
        edges = torch.from_numpy(bins.edges[1:-1])
        columns = []
        for n in range(len(row)):
            near = (edges / row[n, n % 4].double()).float()
            infinity = torch.tensor(float("inf"))
            columns.append(torch.cat([near, torch.nextafter(near, infinity), torch.nextafter(near, -infinity)]))
        col = torch.stack(columns)
        np.testing.assert_array_equal(Products(row, col).histogram(bins), expected_1d(row, col, bins))


def test_products_halfway_between_two_numbers(way: str) -> None:
    """A tie goes to the even neighbour, which is below the edge or on it."""
    row, col = [], []
    bins = BINS["usual"]
    for edge in bins.thresholds:
        mantissa, exponent = np.frexp(edge)
        halfway = 2 * int(mantissa * 2**24) - 1  # of 25 bits, just below the edge
        divisor = next((d for d in range(3, 2000, 2) if halfway % d == 0), 0)
        if divisor and edge:
            row.append([float(divisor), -float(divisor)])
            col.append([s * halfway // divisor * 2.0 ** (int(exponent) - 25) for s in (1, -1)])
            assert abs(row[-1][0] * col[-1][0] - edge) == 2.0 ** (int(exponent) - 25)
    factors = torch.tensor(row), torch.tensor(col)
    assert len(row) > 20
    np.testing.assert_array_equal(Products(*factors).histogram(bins), expected_1d(*factors, bins))


def test_underflow_is_zero_not_negative(way: str) -> None:
    bins = BINS["usual"]
    row, col = torch.tensor([[1e-30, -1e-30, 1.0]]), torch.tensor([[-1e-30, 1e-30, -1e-5]])
    found = Products(row, col).histogram(bins)
    np.testing.assert_array_equal(found, expected_1d(row, col, bins))
    assert found[49] == 3  # not the four products that round to zero
    none = torch.zeros(1, 3)
    for one, other in ((row, none), (none, col), (row, col[:, 2:]), (row[:, 2:], col)):
        np.testing.assert_array_equal(Products(one, other).histogram(bins), expected_1d(one, other, bins))


def test_many_of_the_same_sample_reach_far(way: str) -> None:
    generator = torch.Generator().manual_seed(0)
    row, col = torch.randn(3, 50, generator=generator) * 100, torch.randn(3, 500, generator=generator)
    row[1] = 1e-6
    bins = BINS["usual"]
    np.testing.assert_array_equal(Products(row, col).histogram(bins), expected_1d(row, col, bins))


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_counted_somewhere(odd: float) -> None:
    row, col = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.ones(3, 5)
    row[1, 2] = odd
    bins = BINS["usual"]
    products = Products(row, col)
    assert int(products.histogram(bins).sum()) == 60
    assert int(joint(products, Axis(torch.zeros(4, 5), Bins(4, -1.0, 1.0)), bins).sum()) == 60


def test_double_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    row, col = torch.randn(5, 6, generator=generator).double() / 3, torch.randn(5, 7, generator=generator).double()
    for bins in BINS.values():
        np.testing.assert_array_equal(Products(row, col).histogram(bins), expected_1d(row, col, bins))


def test_counts_beyond_the_exact_range_of_single_precision() -> None:
    row, col, bins = torch.full((2, 5000), -1e-3), torch.ones(2, 5000), Bins(2, -1.0, 1.0)
    products, parameter = Products(row, col), Bins(2, -1.0, 1.0)
    theta = torch.zeros(5000, 5000)
    assert products.histogram(bins).tolist() == [2 * 5000 * 5000, 0]
    assert joint(products, Axis(theta, parameter), bins).tolist() == [[0, 2 * 5000 * 5000], [0, 0]]


@pytest.mark.parametrize(
    ("numbers", "tiny"),
    [([0.0, 3.0], False), ([0.0, 1e-44], True), ([2.0, 1e-20], False), ([1e-23], True), ([], False)],
)
def test_tiny_numbers_are_not_zero(numbers: list[float], tiny: bool) -> None:
    assert outer_products._tiny(np.array(numbers, np.float32), min([*numbers, 0.0])) == tiny
