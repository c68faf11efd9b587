"""The kernels against float64 counting."""

import sys

import numpy as np
import pytest
import torch
from tests.engine.triton_here import DEVICE, INTERPRETED, its_own_words, needs_kernels
from torch import Tensor

from cockpit.engine import kernels
from cockpit.engine.kernels import devices, tables
from cockpit.engine.statistics.bins import Bins

pytestmark = its_own_words

COMMON = Bins(100, -2.0, 2.0)
ALL_BINS = [
    COMMON,
    Bins(1, -1.0, 1.0),
    Bins(2, -1.0, 1.0),  # one edge, at zero
    Bins(7, -0.3, 0.7),  # zero inside a bin
    Bins(10, 0.5, 1.5),  # zero below all bins
    Bins(10, -1.5, -0.5),  # zero above all bins
    Bins(2, -1.0, 1.0 + 1e-13),  # an edge that is zero up to rounding
    Bins(128, -1.0, 1.0),  # a power of two
    Bins(1000, -0.01, 0.01),
    Bins(1000, 1000.0, 1000.001),  # far from zero: float32 cannot guess the bin
    Bins(5, -1e-44, 1e-44),  # edges that float32 can hardly tell apart
    Bins(3, -1e300, 1e300),  # edges that it cannot hold
]
MORE = [COMMON, Bins(7, -0.3, 0.7), Bins(2, -1.0, 1.0), Bins(1000, -0.01, 0.01)]


def names(bins: Bins) -> str:
    return f"{bins.count} on {bins.low:g},{bins.high:g}"


def reference_index(values: Tensor, bins: Bins) -> np.ndarray:
    return np.searchsorted(bins.edges[1:-1], values.detach().cpu().double().numpy(), side="right")


def reference_1d(values: Tensor, bins: Bins) -> list[int]:
    return np.bincount(reference_index(values, bins).ravel(), minlength=bins.count).tolist()


def reference_2d(values: Tensor, theta: Tensor, bins: Bins, parameter: Bins) -> list[list[int]]:
    joint = reference_index(values, bins) * parameter.count + reference_index(theta, parameter)[None]
    counts = np.bincount(joint.ravel(), minlength=bins.count * parameter.count)
    return counts.reshape(bins.count, parameter.count).tolist()


def outer(row: Tensor, col: Tensor, factor: float) -> Tensor:
    return (row.float() * factor)[:, :, None] * col.float()[:, None, :]


def on_edges(bins: Bins) -> Tensor:
    """Float32 numbers at, just below and just above edges, and others on which counting could stumble."""
    with np.errstate(all="ignore"):
        edges = bins.edges.astype(np.float32)[:: max(1, bins.count // 20)]
        around = [edges, np.nextafter(edges, np.float32(-np.inf)), np.nextafter(edges, np.float32(np.inf))]
    odd = [0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 3e-38, -3e-38, 1e-15, -1e-15, 3.0, -3.0, 3e38, -3e38]
    found = torch.from_numpy(np.concatenate(around))
    return torch.cat([found[found.isfinite()], torch.tensor(odd)])


def random(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(DEVICE)


# --- Without Triton -------------------------------------------------------------------------------------------------


def found_in_table(x: np.ndarray, bins: Bins) -> np.ndarray:
    """What ``bin_of`` does, in numpy and in float32."""
    values, steps = tables.numbers(bins)
    with np.errstate(all="ignore"):
        guess = (x - values[tables.LOW]) * values[tables.INVERSE]
    guess = np.minimum(np.where(guess > 0, guess, np.float32(0)), values[tables.LAST])
    k = np.maximum(guess.astype(np.int32) - 1, 0)
    for step in range(steps):
        ahead = k + (1 << (steps - 1 - step))
        k = np.where(x >= values[tables.HEADER + ahead], ahead, k)
    return k


@pytest.mark.parametrize("bins", ALL_BINS, ids=names)
def test_a_table_finds_the_bin_that_float64_finds(bins: Bins) -> None:
    near = torch.linspace(bins.low - 0.1 * (bins.high - bins.low), bins.high, 5001, dtype=torch.float64).float()
    x = torch.cat([on_edges(bins), near[near.isfinite()], torch.tensor([np.inf, -np.inf])])
    assert found_in_table(x.numpy(), bins).tolist() == reference_index(x, bins).tolist()


def test_non_finite_numbers_find_some_bin() -> None:
    for bins in ALL_BINS:
        k = found_in_table(np.array([np.nan, np.inf, -np.inf], np.float32), bins)
        assert k.min() >= 0
        assert k.max() < bins.count


@pytest.mark.parametrize("bins", ALL_BINS, ids=names)
def test_inside_the_radius_signs_decide(bins: Bins) -> None:
    values, _ = tables.numbers(bins)
    x = torch.cat([on_edges(bins), torch.linspace(-1, 1, 1001) * min(float(values[tables.RADIUS]), 1.0)])
    x = x[x.abs() < float(values[tables.RADIUS])]
    decided = np.where(x.numpy() < 0, values[tables.BELOW], values[tables.ZERO])
    assert decided.tolist() == reference_index(x, bins).tolist()


def test_a_radius_is_rounded_down_but_not_to_zero() -> None:
    assert [float(tables.rounded_down(radius)) > 0 for radius in (0.0, 1e-60, 1e-45, 0.1)] == [True] * 4
    assert all(float(tables.rounded_down(radius)) < radius for radius in (0.1, 1 / 3, 1e-30, 1e300, float("inf")))


def test_a_table_is_made_once() -> None:
    table = tables.table_of(COMMON, torch.device("cpu"))
    assert tables.table_of(Bins(100, -2.0, 2.0), torch.device("cpu")) is table
    assert table.values.dtype == torch.float32
    assert table.width == 128
    assert tables.table_of(Bins(128, -1.0, 1.0), torch.device("cpu")).width == 256
    assert tables.table_of(Bins(1000, -1.0, 1.0), torch.device("cpu")).width == 1024


def test_not_usable_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COCKPIT_TRITON", raising=False)
    assert not kernels.usable(torch.zeros(3))
    monkeypatch.setenv("COCKPIT_TRITON", "0")
    assert not kernels.usable(torch.zeros(3))


def test_not_usable_for_other_precisions_and_kinds_of_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapped(Tensor):
        pass

    monkeypatch.setattr(devices, "_interpreted", lambda: True)
    monkeypatch.setenv("COCKPIT_TRITON", "interpret")
    assert kernels.usable(torch.zeros(3))
    assert kernels.usable(torch.nn.Parameter(torch.zeros(3)))
    assert kernels.usable(torch.zeros(3, dtype=torch.bfloat16))
    assert not kernels.usable(torch.zeros(3, dtype=torch.float64))
    assert not kernels.usable(torch.zeros(3, dtype=torch.int64))
    assert not kernels.usable(torch.zeros(3).as_subclass(Wrapped))


def test_what_fails_is_said_and_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_obstacles", {})
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setitem(sys.modules, "cockpit.engine.kernels.probe_program", None)
    assert "ModuleNotFoundError" in str(kernels.obstacle(torch.device("cuda:0")))


def test_too_many_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="5 vectors: at most 4"):
        kernels.scan(torch.zeros(2, 3), torch.zeros(5, 3), None)


def test_nothing_gives_zeros() -> None:
    square, dots, counts = kernels.scan(torch.zeros(3, 0), torch.zeros(2, 0), COMMON)
    assert dots is not None
    assert counts is not None
    assert (square.tolist(), dots.tolist(), int(counts.sum())) == ([0.0] * 3, [[0.0] * 3] * 2, 0)
    assert kernels.outer_1d(torch.zeros(0, 4), torch.zeros(0, 5), 1.0, COMMON).tolist() == [0] * 100
    assert kernels.outer_2d(torch.zeros(3, 0), torch.zeros(3, 2), 1.0, torch.zeros(0, 2), COMMON, COMMON).sum() == 0
    assert kernels.scan_2d(torch.zeros(0, 4), 1.0, torch.zeros(4), COMMON, COMMON).shape == (100, 100)


# --- With Triton ----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes a while for each program; two still make parts that must be put together."""
    if INTERPRETED:
        monkeypatch.setattr("cockpit.engine.kernels.scanning.PROGRAMS", 1)
        monkeypatch.setattr("cockpit.engine.kernels.histograms.PROGRAMS", 1)


@needs_kernels
@pytest.mark.parametrize("scale", [1e-3, 0.03, 1.0])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 9), (2, 140, 12), (2, 9, 520)], ids=str)
def test_outer_1d(shape: tuple[int, int, int], scale: float) -> None:
    samples, outputs, inputs = shape
    row, col = random(samples, outputs, scale=scale), random(samples, inputs, seed=1)
    row[:, ::5] = 0.0
    col[:, ::7] = -0.0
    for bins in MORE if outputs < 100 else MORE[:1]:  # many rows take the interpreter long
        assert kernels.outer_1d(row, col, 2.5, bins).tolist() == reference_1d(outer(row, col, 2.5), bins)


@needs_kernels
@pytest.mark.parametrize("bins", ALL_BINS, ids=names)
def test_outer_1d_on_edges(bins: Bins) -> None:
    col = on_edges(bins)[None].to(DEVICE)
    row = torch.tensor([[1.0, -1.0, 0.5, 1e-20, -1e-38, 0.0, -0.0]], device=DEVICE)
    assert kernels.outer_1d(row, col, 1.0, bins).tolist() == reference_1d(outer(row, col, 1.0), bins)
    assert kernels.outer_1d(col, row, 1.0, bins).tolist() == reference_1d(outer(col, row, 1.0), bins)


@needs_kernels
def test_products_that_round_to_zero_have_no_sign() -> None:
    row, col = torch.tensor([[1e-30, -1e-30]], device=DEVICE), torch.tensor([[1e-30, 1.0]], device=DEVICE)
    assert kernels.outer_1d(row, col, 1.0, COMMON)[49:51].tolist() == [1, 3]  # only -1e-30 * 1 is below zero


@needs_kernels
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_numbers_beside_non_finite_ones_are_counted(odd: float) -> None:
    g = random(5, 130)
    g[1, 3] = g[4, 129] = odd
    finite = torch.tensor(reference_1d(g[g.isfinite()], COMMON))
    for counts in (kernels.scan(g, None, COMMON)[2], kernels.outer_1d(torch.ones(5, 1, device=DEVICE), g, 1.0, COMMON)):
        assert counts is not None
        spare = counts.cpu() - finite
        assert (spare.min(), spare.sum()) == (0, 2)
    theta = random(130)
    theta[7] = odd
    counts = kernels.scan_2d(g, 1.0, theta, COMMON, COMMON)
    assert counts.sum() == g.numel()
    assert kernels.outer_2d(torch.ones(5, 1, device=DEVICE), g, 1.0, theta[None], COMMON, COMMON).sum() == g.numel()


@needs_kernels
@pytest.mark.parametrize("scale", [1e-3, 0.03, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4100), (3, 10), (9, 37), (11, 1100), (8, 512)], ids=str)
def test_scan(shape: tuple[int, int], scale: float) -> None:
    g = random(*shape, scale=scale)
    x = (g * 3.0).double()
    for many, bins in enumerate([*MORE, None]):
        vectors = random(many, shape[1], seed=1) if many else None
        square, dots, counts = kernels.scan(g, vectors, bins, 3.0)
        torch.testing.assert_close(square.double(), x.square().sum(1), rtol=1e-6, atol=0)
        assert (dots is None) == (vectors is None)
        assert (counts is None) == (bins is None)
        if vectors is not None and dots is not None:
            limit = 1e-6 * vectors.double().norm(dim=1)[:, None] * x.norm(dim=1)
            assert ((dots.double() - vectors.double() @ x.mT).abs() <= limit).all()
        if bins is not None and counts is not None:
            assert counts.tolist() == reference_1d(g * 3.0, bins)


@needs_kernels
@pytest.mark.parametrize("bins", [COMMON, Bins(7, -0.3, 0.7), Bins(40, -0.1, 1.5)], ids=names)
def test_scan_near_and_far(bins: Bins) -> None:
    """Elements of a tile reach as far as an edge near zero, beyond all that are compared with, or far beyond them."""
    width = (bins.high - bins.low) / bins.count
    for reach in (0.5, 1.5, tables.NEAR, tables.NEAR + 1.5, tables.NEAR * tables.WIDER, 60):
        g = random(9, 130, seed=3).clamp(-3, 3) * (reach * width / 3)
        g[0, :2] = torch.tensor([reach * width, -reach * width], device=DEVICE)
        counts = kernels.scan(g, None, bins, 1.0)[2]
        assert counts is not None
        assert counts.tolist() == reference_1d(g, bins)


@needs_kernels
@pytest.mark.parametrize("bins", ALL_BINS, ids=names)
def test_scan_on_edges(bins: Bins) -> None:
    edges = on_edges(bins)
    g = edges[torch.randint(len(edges), (5, 203), generator=torch.Generator().manual_seed(0))].to(DEVICE)
    counts = kernels.scan(g, None, bins, 1.0)[2]
    assert counts is not None
    assert counts.tolist() == reference_1d(g, bins)


@needs_kernels
def test_scan_gives_the_same_bits_again() -> None:
    g, vectors = random(5, 3000), random(2, 3000, seed=1)
    first, second = kernels.scan(g, vectors, COMMON), kernels.scan(g, vectors, COMMON)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None)


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened(dtype: torch.dtype) -> None:
    row, col = random(3, 7).to(dtype), random(3, 9, seed=1).to(dtype)
    assert kernels.outer_1d(row, col, 2.5, COMMON).tolist() == reference_1d(outer(row, col, 2.5), COMMON)
    theta = random(7, 9, seed=2).to(dtype)
    joint = kernels.outer_2d(row, col, 2.5, theta, COMMON, MORE[1])
    assert joint.tolist() == reference_2d(outer(row, col, 2.5), theta, COMMON, MORE[1])
    square, _, counts = kernels.scan(row, None, COMMON, 2.5)
    assert counts is not None
    assert counts.tolist() == reference_1d(row.float() * 2.5, COMMON)
    torch.testing.assert_close(square.double(), (row.double() * 2.5).square().sum(1), rtol=1e-6, atol=0)
    joint = kernels.scan_2d(row, 2.5, theta[:, 0], COMMON, MORE[1])
    assert joint.tolist() == reference_2d(row.float() * 2.5, theta[:, 0], COMMON, MORE[1])


@needs_kernels
@pytest.mark.parametrize("spread", [0.001, 0.5])  # parameters in one or two bins, and in many
@pytest.mark.parametrize("scale", [1e-3, 0.03, 1.0])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 9), (5, 9, 130)], ids=str)
def test_outer_2d(shape: tuple[int, int, int], scale: float, spread: float) -> None:
    samples, outputs, inputs = shape
    row, col = random(samples, outputs, scale=scale), random(samples, inputs, seed=1)
    row[:, ::5] = 0.0
    theta = random(outputs, inputs, scale=spread, seed=2)
    for bins in MORE:
        counts = kernels.outer_2d(row, col, -1.5, theta, bins, Bins(50, -1.0, 1.0))
        assert counts.tolist() == reference_2d(outer(row, col, -1.5), theta, bins, Bins(50, -1.0, 1.0))


@needs_kernels
@pytest.mark.parametrize("spread", [0.001, 0.5])
@pytest.mark.parametrize("shape", [(1, 1), (9, 37), (6, 1100)], ids=str)
def test_scan_2d(shape: tuple[int, int], spread: float) -> None:
    theta = random(shape[1], scale=spread, seed=2)
    for scale in (1e-3, 1.0):
        g = random(*shape, scale=scale)
        for bins in MORE:
            counts = kernels.scan_2d(g, 3.0, theta, bins, Bins(60, -1.0, 1.0))
            assert counts.tolist() == reference_2d(g * 3.0, theta, bins, Bins(60, -1.0, 1.0))


@needs_kernels
def test_joint_bins_on_edges() -> None:
    for bins in ALL_BINS:
        edges = on_edges(bins)
        g = edges[torch.randint(len(edges), (5, len(edges)), generator=torch.Generator().manual_seed(0))].to(DEVICE)
        theta = edges.to(DEVICE)
        assert kernels.scan_2d(g, 1.0, theta, bins, bins).tolist() == reference_2d(g, theta, bins, bins)


@needs_kernels
def test_tensors_need_not_be_contiguous() -> None:
    row, col = random(7, 3).mT, random(9, 3, seed=1).mT
    assert kernels.outer_1d(row, col, 1.0, COMMON).tolist() == reference_1d(outer(row, col, 1.0), COMMON)
    counts = kernels.scan(col, row.mT[:2, :1].expand(2, 9), COMMON)[2]
    assert counts is not None
    assert counts.tolist() == reference_1d(col, COMMON)
