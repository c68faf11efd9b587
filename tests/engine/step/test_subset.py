"""Some samples of a batch: the very numbers of these, unbiased sums, and a reason for what needs them all."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.engine.walked import USUAL, Trial
from torch import nn

import cockpit
from cockpit.core.errors import Undefined
from cockpit.engine.autograd.allowance import Allowance
from cockpit.engine.needs import ABS_MAX, DOT_GRAD, LINE, SQ_NORM
from cockpit.engine.statistics.bins import Bins
from cockpit.engine.statistics.hist1d import hist1d
from cockpit.engine.statistics.ratios import signal_to_noise
from cockpit.engine.step.backward import NO_ROOM
from cockpit.engine.step.prepared import START
from cockpit.engine.step.settings import Settings

N = 8
NEEDS = USUAL | {ABS_MAX, hist1d(Bins(8, -1.0, 1.0)), signal_to_noise(1, 0.0)}
torch.manual_seed(0)
X, Y = torch.randn(N, 4, 5).double(), torch.randint(3, (N,))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.body, self.conv = nn.Embedding(6, 5), nn.Linear(5, 4), nn.Conv1d(4, 3, 2)
        self.head = nn.Linear(9, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.body(x + self.words(x[..., 0].abs().long().clamp_max(5))))
        return self.head(torch.tanh(self.conv(x)).flatten(1))


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(1)
    return Net().double()


def settings(**limits: int) -> Settings:
    return Settings(allowance=Allowance(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize("remembered", [False, True])
def test_the_numbers_of_the_chosen(net: nn.Module, remembered: bool) -> None:
    whole, some = Trial(net, NEEDS), Trial(net, NEEDS, settings(samples=3))
    for _ in range(1 + remembered):  # kept until the step is over; and reduced at once
        every, few = (trial.step(lambda: F.cross_entropy(net(X), Y)) for trial in (whole, some))
    chosen = few.passes[0].chosen
    assert len(chosen) == 3
    assert bool(few.passes[0].numbers) is remembered
    assert (few.batch_size, few.seen) == (N, 3)
    assert not few.uncovered
    for found, expected in ((few.sq_norms(), every.sq_norms()), (few.dots(), every.dots())):
        for name in expected:
            torch.testing.assert_close(found[name], expected[name][chosen])
    for name, square in few.squares().items():
        assert square == pytest.approx(float(every.sq_norms()[name][chosen].sum()) * N / 3)
    elements = 3 * sum(p.numel() for p in net.parameters())
    assert few.rows(hist1d(Bins(8, -1.0, 1.0))).sum() == elements
    for needs_all in (few.abs_max, lambda: few.signal_to_noise(signal_to_noise(1, 0.0))):
        with pytest.raises(Undefined, match="all 8 samples"):
            needs_all()


def test_sums_are_unbiased(net: nn.Module) -> None:
    needs = frozenset({SQ_NORM, DOT_GRAD})
    every = Trial(net, needs).step(lambda: F.cross_entropy(net(X), Y)).scatter()
    trial = Trial(net, needs, settings(samples=2))
    drawn = torch.tensor([trial.step(lambda: F.cross_entropy(net(X), Y)).scatter() for _ in range(400)])
    error = drawn.std(0) / 20
    assert float((drawn[:, 0] - every[0]).abs().max()) < 1e-12
    for k in (1, 2):
        assert abs(float(drawn[:, k].mean()) - every[k]) < 4 * float(error[k])


def test_what_alpha_needs_is_kept_under_the_allowance(net: nn.Module) -> None:
    update = {name: torch.ones_like(p) for name, p in net.named_parameters()}
    needs = frozenset({SQ_NORM, LINE})
    every = Trial(net, needs).step(lambda: F.cross_entropy(net(X), Y))
    every.moved(update, leaving=True)
    trial = Trial(net, needs, settings(limit=6_000))
    for step in range(3):
        seen = trial.step(lambda: F.cross_entropy(net(X), Y))
        seen.moved(update, leaving=True)
        for name, norms in every.sq_norms().items():
            torch.testing.assert_close(seen.sq_norms()[name], norms)
        if (
            step == 0
        ):  # nothing was known of it: what did not fit was reduced at once, guessing that the step has one pass
            assert START not in seen.numbers
            assert 0 < len(seen.passes[0].numbers) < len(seen.names)
            continue
        kept = seen.passes[0].kept
        assert 1 < len(kept) < N
        assert seen.seen == N  # numbers of all samples need not wait
        torch.testing.assert_close(seen.total(START), every.total(START)[kept.numpy()])


def test_a_guess_that_was_wrong_is_undefined_once(net: nn.Module) -> None:
    needs = frozenset({SQ_NORM, LINE})
    trial = Trial(net, needs, settings(limit=6_000))
    halves = [lambda: F.cross_entropy(net(X[:4]), Y[:4]) / 2, lambda: F.cross_entropy(net(X[4:]), Y[4:]) / 2]
    assert trial.step(*halves).flaw == NO_ROOM
    whole = Trial(net, needs).step(lambda: F.cross_entropy(net(X), Y))
    seen = trial.step(*halves)
    assert seen.flaw is None
    assert 1 < seen.seen < N
    chosen = torch.cat([found.chosen + 4 * k for k, found in enumerate(seen.passes)])
    for name, norms in seen.sq_norms().items():
        torch.testing.assert_close(norms, whole.sq_norms()[name][chosen])


def test_watch_takes_some_samples(net: nn.Module) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with cockpit.watch(
        net, optimizer, every=1, samples=3, run=False, quantities=["NormTest", "MeanGSNR", "Alpha"]
    ) as pit:
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(net(X), Y).backward()
            optimizer.step()
        assert "3 random samples of each 8" in pit.explain()
    first = pit.get_output()[0]
    assert first["NormTest"] > 0
    assert first["Alpha"] is not None
    assert "all 8 samples" in (pit.history.series("MeanGSNR")[0].reason or "")
