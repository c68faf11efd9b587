"""Every statistic of every form, however few elements are formed at a time: as of g_n formed as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cockpit.engine.statistics._base import At, Shortcut, Statistic
from cockpit.engine.statistics.bins import Bins
from cockpit.engine.statistics.dot import dot
from cockpit.engine.statistics.extremes import ABS_MAX
from cockpit.engine.statistics.hist1d import hist1d
from cockpit.engine.statistics.hist2d import hist2d
from cockpit.engine.statistics.ratios import noise_to_curvature, signal_to_noise
from cockpit.engine.statistics.scan import scan, scan_all, tiles
from cockpit.engine.statistics.sq_norm import SQ_NORM
from cockpit.engine.statistics.sum_sq import SUM_SQ
from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Indexed, Summed
from cockpit.layers.parts import pick, total

N = 5
FOURTH = Statistic("fourth_moment", "element", lambda g, at: g.pow(4).sum(0))  # a user's own: one line
FINE, COARSE = Bins(30, -2.0, 2.0), Bins(4, -1.0, 1.0)


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape) + shape[-1])
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def spiky(*shape: int) -> Tensor:
    """Small numbers of both signs, some zeros, a few large ones."""
    values = numbers(*shape) / 40
    values[..., ::7] = 0
    values[..., ::11] *= 200
    return values


def looked_up(entries: int = 12) -> Indexed:
    generator = torch.Generator().manual_seed(1)
    sample = torch.randint(N, (entries,), generator=generator)
    return Indexed((4, 3), N, sample, torch.randint(4, (entries,), generator=generator), numbers(entries, 3))


def convolved(groups: int) -> Convolved:
    signal, response = numbers(N, 1, 4, 5, 5), numbers(N, 1, 6, 3, 3)
    return Convolved((6, 4 // groups, 3, 3), signal, response, groups, (2, 2), (1, 1), (1, 1), 0.5)


FIRST = Statistic("first", "sample", lambda g, at: g.reshape(len(g), -1)[:, 0], join=lambda a, b: a)  # views of g
FORMS: dict[str, AnyForm] = {
    "vectors": Factored((4, 3), numbers(N, 1, 1, 4), numbers(N, 1, 1, 3), 2.0),
    "small vectors": Factored((40, 30), spiky(N, 1, 1, 40), spiky(N, 1, 1, 30), -0.5),
    "positions": Factored((4, 3), numbers(N, 1, 6, 4), numbers(N, 1, 6, 3)),
    "two positions of a wide layer": Factored((30, 40), numbers(N, 1, 2, 30) / 4, numbers(N, 1, 2, 40) / 4),
    "groups": Factored((4, 3), numbers(N, 2, 3, 2), numbers(N, 2, 3, 3)),
    "heads": Factored((2, 2, 3), numbers(N, 1, 3, 4), numbers(N, 1, 3, 3)),
    "convolution": convolved(1),
    "grouped convolution": convolved(2),
    "transposed convolution": replace(convolved(1), response=numbers(N, 1, 6, 2, 3)),
    "look-ups": looked_up(),
    "none looked up": Indexed((4, 3), N, torch.empty(0).long(), torch.empty(0).long(), numbers(0, 3)),
    "vector": Dense(numbers(N, 7)),
    "number": Dense(numbers(N)),
    "tied": Summed((looked_up(), Factored((4, 3), numbers(N, 1, 6, 4), numbers(N, 1, 6, 3)))),
    "single": Dense(numbers(N, 4, 3, dtype=torch.float32)),
}
STATISTICS = [
    SQ_NORM, dot("mean"), SUM_SQ, ABS_MAX, FOURTH, FIRST, hist1d(FINE), hist1d(COARSE), hist2d(FINE, COARSE),
    signal_to_noise(1, 0.0), signal_to_noise(0, 1e-5), noise_to_curvature("h", 1e-3),
]  # fmt: skip
each = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def beside(form: AnyForm) -> tuple[Tensor, At]:
    g = form.form(0, form.samples).clone()
    theta = torch.linspace(-1.5, 1.5, max(1, g[0].numel()), dtype=g.dtype).reshape(form.shape)
    return g, At(theta, {"mean": g.mean(0), "h": theta.abs()}, size=form.samples)


@each
@pytest.mark.parametrize("elements", [1, 8, 40, 2**20])
def test_as_of_the_whole(form: AnyForm, elements: int) -> None:
    g, at = beside(form)
    found = scan_all([form], STATISTICS, at, elements)
    for s in STATISTICS:
        expected = s.chunk(g, at) if s.finish is None else s.finish(s.chunk(g, at), at)
        torch.testing.assert_close(found[s], expected, rtol=1e-5 if g.dtype is torch.float32 else 1e-9, atol=1e-12)


@each
@pytest.mark.parametrize("s", [SQ_NORM, dot("mean"), SUM_SQ, ABS_MAX], ids=lambda s: s.name)
def test_alone_as_among_others(form: AnyForm, s: Statistic) -> None:
    """Alone, an identity on factors may take fewer operations."""
    g, at = beside(form)
    torch.testing.assert_close(scan(form, [s], at, 40)[s], s.chunk(g, at), rtol=1e-5, atol=1e-12)


@each
def test_in_parts(form: AnyForm) -> None:
    """A step of several backward passes, and some samples of a batch."""
    g, at = beside(form)
    parts = [pick(form, torch.tensor([0, 3])), pick(form, torch.tensor([1, 2, 4]))]
    found = scan_all(parts, STATISTICS, at, 40)
    order = g[[0, 3, 1, 2, 4]]
    for s in STATISTICS:
        expected = s.chunk(order, at) if s.finish is None else s.finish(s.chunk(order, at), at)
        torch.testing.assert_close(found[s], expected, rtol=1e-5, atol=1e-12)


@each
def test_sum(form: AnyForm) -> None:
    g, _ = beside(form)
    torch.testing.assert_close(total(form), g.sum(0), rtol=1e-5, atol=1e-12)


@each
@pytest.mark.parametrize("elements", [1, 8, 40])
def test_tiles_hold_no_more_than_allowed(form: AnyForm, elements: int) -> None:
    """But for one row of one sample, or a sample of a form whose factors cannot be cut."""
    for _, _, g in tiles(form, elements):
        assert g.numel() <= max(elements, g[0].numel())


def test_bfloat16_is_multiplied_in_single_precision() -> None:
    row, col = numbers(N, 1, 6, 4, dtype=torch.bfloat16), numbers(N, 1, 6, 3, dtype=torch.bfloat16)
    form = Factored((4, 3), row, col)
    g = torch.einsum("nto,nti->noi", row[:, 0].double(), col[:, 0].double())
    found = scan(form, [SQ_NORM, SUM_SQ], At(torch.zeros(4, 3)), 2**20)
    torch.testing.assert_close(found[SQ_NORM].double(), g.flatten(1).square().sum(1), rtol=1e-6, atol=0)
    torch.testing.assert_close(found[SUM_SQ].double(), g.square().sum(0), rtol=1e-6, atol=0)


@pytest.mark.parametrize("bins", [FINE, COARSE, Bins(1, -1.0, 1.0), Bins(5, -1.0, 1.0)])
@pytest.mark.parametrize("spoilt", [0.0, float("nan"), float("inf")])
def test_signs_of_factors_count_as_the_elements_do(bins: Bins, spoilt: float) -> None:
    row, col = spiky(N, 1, 1, 40).float(), spiky(N, 1, 1, 30).float()
    row[1, 0, 0, 3] = col[2, 0, 0, 4] = spoilt
    form = Factored((40, 30), row, col, -0.5)
    counted = scan(form, [hist1d(bins)], At(torch.zeros(40, 30)), 50)[hist1d(bins)]
    assert torch.equal(counted, hist1d(bins).chunk(form.form(0, N), At(torch.zeros(40, 30))))


def test_a_dear_identity_is_not_taken() -> None:
    """Of many positions, pairs take more operations than forming g_n."""
    form = Factored((4, 3), numbers(N, 1, 200, 4), numbers(N, 1, 200, 3))
    offer = SQ_NORM.shortcut(form, At(torch.zeros(4, 3)), 2**20)
    assert offer is not None

    def never() -> Tensor:
        raise AssertionError("taken")

    dear = Statistic("dear", "sample", SQ_NORM.chunk, shortcut=lambda *_: Shortcut(offer.operations, never))
    found = scan(form, [dear], At(torch.zeros(4, 3)), 2**20)[dear]
    torch.testing.assert_close(found, form.form(0, N).flatten(1).square().sum(1))
