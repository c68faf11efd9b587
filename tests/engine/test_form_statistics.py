"""Statistics of every form against formed gradients in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields

import numpy as np
import pytest
import torch

from cockpit.engine import form_statistics as statistics
from cockpit.engine import formed
from cockpit.engine.form_statistics import Direction, Wanted, Way
from cockpit.engine.statistics.bins import Bins
from cockpit.layers import forms
from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Indexed, Scratch, Summed, combine, scale

pytestmark = pytest.mark.usefixtures("loops")

original_chunks = forms.chunks

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
    "wide": lambda: Factored((20, 30), draw(N, 1, 1, 20), draw(N, 1, 1, 30)),  # all pairs of samples are less work
    "tall": lambda: Factored((9, 4), draw(N, 1, 1, 9), draw(N, 1, 1, 4)),
    "long_sequence": lambda: Factored((40, 50), draw(N, 1, 2, 40), draw(N, 1, 2, 50)),
    "few_pixels": lambda: Convolved(
        (20, 18, 3, 3), draw(N, 1, 18, 4, 4), draw(N, 1, 20, 2, 2), 1, (1, 1), (0, 0), (1, 1)
    ),
    "frames": lambda: Convolved((4, 16, 3), draw(N, 3, 16, 5), draw(N, 3, 4, 5), 1, (1,), (1,), (1,)),
    "shorter": lambda: Convolved(  # of a transposed convolution
        (2, 17, 3), draw(N, 1, 17, 12), draw(N, 1, 2, 3), 1, (2,), (0,), (3,)
    ),
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
    found = statistics.compute(form, theta, wanted, {"v": v, "w": Direction(2 * v)})
    torch.testing.assert_close(found.sq_norm, g.square().sum(1))
    torch.testing.assert_close(found.dots["v"], g @ v.reshape(-1))
    torch.testing.assert_close(found.dots["w"], 2 * g @ v.reshape(-1))
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


WAYS = ["auto", "gram", "chunks", "form"]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("factor", [1.0, 128.0, 3.7])
def test_all_ways_agree(name: str, way: Way, factor: float) -> None:
    form = scale(FORMS[name](), factor)
    g = form.form(0, N).reshape(N, -1).clone()
    other = scale(FORMS[name](), 0.25)
    v, mean = draw(*form.shape), 0.25 / factor * g.mean(0)
    directions = {"vector": Direction(v), "mean": Direction(None, other, -2.0), "both": Direction(3 * v, None)}
    found = statistics.compute(form, v, Wanted(sq_norm=True, dot_mean=True), directions, way=way)
    torch.testing.assert_close(found.sq_norm, g.square().sum(1))
    torch.testing.assert_close(found.dot_mean, g @ g.mean(0))
    assert found.of_mean
    torch.testing.assert_close(found.dots["vector"], g @ v.reshape(-1))
    torch.testing.assert_close(found.dots["mean"], -2.0 * g @ mean)
    torch.testing.assert_close(found.dots["both"], 3 * g @ v.reshape(-1))


@pytest.mark.parametrize("name", FORMS)
def test_the_gradient_stands_for_the_mean_where_it_saves_work(name: str) -> None:
    """It may hold more than the mean (an L2 term); whoever reads dot_mean is told which it was."""
    form = scale(FORMS[name](), 2.0)
    g = form.form(0, N).reshape(N, -1).clone()
    gradient = g.mean(0).reshape(form.shape) + draw(*form.shape)
    for wanted in (Wanted(dot_mean=True), Wanted(sq_norm=True, dot_mean=True, abs_max=True)):
        found = statistics.compute(form, gradient, wanted, {}, gradient)
        expected = g @ (g.mean(0) if found.of_mean else gradient.reshape(-1))
        torch.testing.assert_close(found.dot_mean, expected)
        assert found.of_mean == (
            name in ("wide", "long_sequence") and isinstance(form, Factored) and _free(form, wanted)
        )


def _free(form: Factored, wanted: Wanted) -> bool:
    return form.outer or not wanted.elements


@pytest.mark.parametrize("name", FORMS)
def test_project_and_mean(name: str) -> None:
    form = scale(FORMS[name](), 3.7)
    g, v = form.form(0, N).reshape(N, -1).clone(), draw(*form.shape)
    torch.testing.assert_close(statistics.project(form, Direction(v)), g @ v.reshape(-1))
    torch.testing.assert_close(statistics.project(form, Direction(v.float())), g @ v.float().double().reshape(-1))
    torch.testing.assert_close(statistics.project(form, Direction(None, form, 0.5)), g @ g.mean(0) / 2)
    torch.testing.assert_close(statistics.mean_gradient(form).reshape(-1), g.mean(0))
    whole = scale(FORMS[name](), 1.0).form(0, N).reshape(N, -1)
    torch.testing.assert_close(statistics.project_formed(whole, 3.7, v), g @ v.reshape(-1))


@pytest.mark.parametrize("name", FORMS)
def test_inputs_that_require_gradients(name: str) -> None:
    """Activations saved for the backward pass do; nothing of ours is recorded, in any mode."""
    form = FORMS[name]()
    for part in form.parts if isinstance(form, Summed) else (form,):
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value.requires_grad_()
    theta = draw(*form.shape).requires_grad_()
    wanted = Wanted(
        sq_norm=True, sum_sq=True, abs_max=True, dot_mean=True, hist1d=(BINS[0],), hist2d=((BINS[1], BINS[4]),)
    )
    found = statistics.compute(form, theta, wanted, {"v": draw(*form.shape)})
    assert found.sq_norm is not None
    assert not found.sq_norm.requires_grad
    assert not found.dots["v"].requires_grad
    assert not statistics.project(form, Direction(theta)).requires_grad
    assert not statistics.mean_gradient(form).requires_grad


@pytest.mark.parametrize("limit", [1, 30, 2**20])
@pytest.mark.parametrize("size", [1e-3, 0.05, 1.0])
def test_formed_in_single_precision(limit: int, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are those of the numbers that were formed; several bins are counted from the same chunk."""
    form = scale(Convolved((4, 2, 3), draw(N, 1, 4, 9).float(), draw(N, 1, 4, 4).float(), 2, (2,), (1,), (2,)), size)
    monkeypatch.setattr(forms, "chunks", lambda *args, **options: _small_chunks(limit, *args, **options))
    monkeypatch.setattr(formed, "chunks", forms.chunks)
    theta = draw(*form.shape).float()
    pairs = tuple((one, other) for one in BINS for other in (Bins(5, -1.0, 1.0), Bins(50, -2.0, 2.0)))
    found = statistics.compute(form, theta, Wanted(sq_norm=True, hist1d=tuple(BINS), hist2d=pairs), {})
    g = torch.cat([g.clone() for _, g in _small_chunks(limit, form)]).double()
    torch.testing.assert_close(found.sq_norm.double(), g.square().sum(1), rtol=1e-5, atol=0)
    for bins in BINS:
        expected = np.bincount(np.searchsorted(bins.edges[1:-1], g.numpy().ravel(), side="right"), minlength=bins.count)
        np.testing.assert_array_equal(found.hist1d[bins], expected)
    for one, other in pairs:
        np.testing.assert_array_equal(found.hist2d[one, other].sum(1), found.hist1d[one])
        columns = np.bincount(
            np.searchsorted(other.edges[1:-1], theta.double().numpy().ravel(), side="right"), minlength=other.count
        )
        np.testing.assert_array_equal(found.hist2d[one, other].sum(0), N * columns)


def _small_chunks(
    limit: int, form: AnyForm, _: int = 0, scratch: Scratch | None = None, into: torch.Tensor | None = None
) -> Iterator[tuple[int, torch.Tensor]]:
    return original_chunks(form, limit, scratch, into)


@pytest.mark.parametrize("limit", [1, 100, 2**20])
def test_formed_gradients_are_kept_where_there_is_room(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    signal, response = draw(N, 1, 4, 80), draw(N, 1, 4, 78)
    form = scale(Convolved((4, 2, 3), signal, response, 2, (1,), (0,), (1,)), 0.1)
    monkeypatch.setattr(formed, "chunks", lambda *args, **options: _small_chunks(limit, *args, **options))
    theta, wanted = draw(*form.shape), Wanted(sq_norm=True, hist1d=(BINS[0],))
    size = N * theta.numel() * 8
    found = statistics.compute(form, theta, wanted, {}, room=size)
    assert found.formed is not None
    torch.testing.assert_close(found.formed.view(N, *form.shape), form.form(0, N))
    plain = statistics.compute(form, theta, wanted, {}, room=size - 1)
    assert plain.formed is None
    torch.testing.assert_close(found.sq_norm, plain.sq_norm)
    np.testing.assert_array_equal(found.hist1d[BINS[0]], plain.hist1d[BINS[0]])
    few = Convolved((4, 2, 3), signal[..., :60], response[..., :58], 2, (1,), (0,), (1,))
    assert statistics.compute(few, theta, wanted, {}, room=size).formed is None  # its factors are no slower


def test_norms_of_long_gradients_are_accurate() -> None:
    """A sum of many squares in single precision: no more than a few roundings are lost."""
    g = torch.rand(3, 300_000, generator=torch.Generator().manual_seed(0)) + 0.5
    found = statistics.compute(Dense(g), g[0], Wanted(sq_norm=True), {"v": g[0]})
    torch.testing.assert_close(found.sq_norm.double(), g.double().square().sum(1), rtol=2e-6, atol=0)
    torch.testing.assert_close(found.dots["v"].double(), g.double() @ g[0].double(), rtol=2e-6, atol=0)


def test_a_direction_needs_a_vector_or_a_form() -> None:
    with pytest.raises(ValueError, match="give one"):
        statistics.project(Dense(draw(N, 3)), Direction(None))
