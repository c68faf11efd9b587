"""What runs on a GPU, tried on a CPU: the same numbers without looking at any; kernels are played by torch."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cockpit
from cockpit.engine import formed, kernels, outer
from cockpit.engine.histograms import looked_up, looked_up_2d
from cockpit.engine.statistics.bins import Bins
from cockpit.engine.wanted import Statistics, Wanted
from cockpit.layers.forms import AnyForm, Convolved, Dense, Factored, Scratch, Summed, scale

pytestmark = pytest.mark.usefixtures("loops")

N = 7
BINS = (Bins(100, -2.0, 2.0), Bins(7, -0.5, 1.0), Bins(4, -1.0, 1.0))
WANTED = Wanted(
    sq_norm=True, sum_sq=True, abs_max=True, hist1d=BINS, hist2d=((BINS[0], BINS[2]), (BINS[1], Bins(5, -2.0, 2.0)))
)


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


FORMS: dict[str, Callable[[], AnyForm]] = {
    "factored": lambda: Factored((3, 4), draw(N, 1, 5, 3), draw(N, 1, 5, 4)),
    "convolved": lambda: Convolved((4, 2, 3), draw(N, 1, 4, 9), draw(N, 1, 4, 4), 2, (2,), (1,), (2,)),
    "dense": lambda: Dense(draw(N, 5, 2)),
    "summed": lambda: Summed((Dense(draw(N, 3, 4)), Factored((3, 4), draw(N, 1, 5, 3), draw(N, 1, 5, 4)))),
}


def same(found: Statistics, expected: Statistics) -> None:
    for key in ("sq_norm", "sum_sq", "abs_max"):
        torch.testing.assert_close(getattr(found, key), getattr(expected, key))
    for name, dots in expected.dots.items():
        torch.testing.assert_close(found.dots[name], dots)
    assert found.dots.keys() == expected.dots.keys()
    for bins, counts in expected.hist1d.items():
        np.testing.assert_array_equal(found.hist1d[bins], counts)
    for pair, counts in expected.hist2d.items():
        np.testing.assert_array_equal(found.hist2d[pair], counts)


def scan(
    g: Tensor, vectors: Tensor | None, bins: Bins | None, factor: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    assert vectors is None or len(vectors) <= 4
    g = g * factor
    dots = None if vectors is None else vectors @ g.mT
    return g.square().sum(1), dots, None if bins is None else looked_up(g, bins)


def play_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    monkeypatch.setattr(kernels, "scan", scan)
    monkeypatch.setattr(kernels, "scan_2d", lambda g, factor, theta, *pair: looked_up_2d(g * factor, theta, *pair))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("factor", [1.0, 4.0])  # powers of two: scaled before or after, the elements are the same
@pytest.mark.parametrize("vectors", [0, 1, 6])
@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("played", [False, True])
def test_as_on_a_gpu(
    name: str, factor: float, vectors: int, pieces: bool, played: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = scale(FORMS[name](), factor)
    flat = {
        str(k): draw(form.shape[0], 13 + k)[:, 0].new_ones(form.shape).reshape(-1) * (k + 1) for k in range(vectors)
    }
    theta = draw(*form.shape).reshape(-1)
    expected = formed._on_cpu(form, theta, WANTED, flat, None, Scratch())
    if pieces:
        monkeypatch.setattr(formed, "WHOLE", 0)
        monkeypatch.setattr(formed, "PART", 8 * form.size)  # two samples at a time
    if played:
        play_kernels(monkeypatch)
    found = formed._on_gpu(form, theta, WANTED, flat)
    same(found, expected)
    if isinstance(form, Dense) or pieces:
        assert found.formed is None
    else:
        assert found.formed is not None
        rest = getattr(form, "factor", 1.0)
        torch.testing.assert_close(found.formed * rest, form.form(0, N).reshape(N, -1))


def test_formed_whole_though_its_patches_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    form = Convolved((2, 3, 4), draw(N, 1, 3, 103), draw(N, 1, 2, 100), 1, (1,), (0,), (1,))
    monkeypatch.setattr(formed, "PART", 4 * 3 * form.size)
    assert form.size > 4 * prod(form.shape)
    found = formed._on_gpu(form, draw(24), Wanted(sq_norm=True), {})
    assert found.formed is not None
    torch.testing.assert_close(found.formed, form.form(0, N).reshape(N, -1))


@pytest.mark.parametrize("wanted", [Wanted(sq_norm=True), Wanted(hist1d=BINS), Wanted(abs_max=True), Wanted()])
def test_nothing_that_is_not_wanted(wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    play_kernels(monkeypatch)
    form, theta = FORMS["convolved"](), draw(24)
    found = formed._on_gpu(form, theta, wanted, {})
    assert (found.sq_norm is not None) == wanted.sq_norm
    assert (found.abs_max is not None) == wanted.abs_max
    assert found.sum_sq is None
    assert tuple(found.hist1d) == wanted.hist1d


def test_outer_products_looked_up() -> None:
    form = scale(Factored((3, 4), draw(N, 1, 1, 3), draw(N, 1, 1, 4)), 3.7)
    assert isinstance(form, Factored)
    found = outer._looked_up(form, BINS[0])
    np.testing.assert_array_equal(found, looked_up(form.form(0, N), BINS[0]))


def test_a_step_beside_the_gradient_is_projected_on_what_was_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under Adam individual gradients of a convolution are kept until the update is known; the numbers are the same."""
    taken: list[bool] = []
    original = formed._kept

    def kept(*args: Any) -> Tensor | None:
        memory = original(*args)
        taken.append(memory is not None)
        return memory

    def alphas(positions: int) -> list[float]:
        monkeypatch.setattr(formed, "POSITIONS", positions)
        taken.clear()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(32, 4))
        optimizer, loss_fn = torch.optim.Adam(model.parameters(), lr=1e-2), nn.CrossEntropyLoss()
        with cockpit.watch(model, optimizer, loss_fn, quantities=["Alpha", "GradHist1d"], every=1, run=False) as pit:
            for _ in range(5):
                optimizer.zero_grad()
                loss_fn(model(torch.randn(6, 2, 8, 8)), torch.randint(4, (6,))).backward()
                optimizer.step()
        return [values["Alpha"] for values in pit.get_output().values() if values.get("Alpha") is not None]

    monkeypatch.setenv("COCKPIT_REPLAY", "0")  # each step by itself, so that it can be counted
    monkeypatch.setattr(formed, "_kept", kept)
    from_factors = alphas(10_000)
    assert len(from_factors) == 4
    assert not any(taken)
    assert alphas(1) == pytest.approx(from_factors, rel=1e-4)
    assert sum(taken) == 2 * 5  # both convolutions
