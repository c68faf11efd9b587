"""A structure that is known is not asked again, unless data decide what goes where."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.engine.walked import Trial, check, one_by_one
from torch import Tensor, nn

Y = torch.tensor([0, 2, 1, 1, 0, 2])
X = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).double()


class Net(nn.Module):
    def __init__(self, between: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(5, 6), nn.Linear(6, 3), between

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)))


def gathered(scores: Tensor, y: Tensor) -> Tensor:
    return -scores.log_softmax(1).gather(1, y[:, None]).mean()


def routed(x: Tensor) -> Tensor:
    return torch.tanh(x)[:, x.detach().sum(0).argsort()]


@pytest.mark.parametrize(
    ("between", "loss", "asked"),
    [(torch.tanh, F.cross_entropy, 1), (torch.tanh, gathered, 1), (routed, F.cross_entropy, 3)],
    ids=["plain", "a loss by gather", "routed inside"],
)
def test_only_indexing_between_samples_and_parameters_is_dynamic(
    between: Callable[[Tensor], Tensor], loss: Callable[[Tensor, Tensor], Tensor], asked: int
) -> None:
    torch.manual_seed(0)
    net = Net(between).double()
    trial = Trial(net)
    for _ in range(3):
        seen = trial.step(lambda: loss(net(X), Y))
        assert not seen.uncovered
    assert trial.settings.structures.asked == asked


def test_other_sizes_are_no_other_structure() -> None:
    torch.manual_seed(0)
    net = Net().double()
    trial = Trial(net)
    for rows in (6, 4, 2, 5):
        seen = trial.step(lambda rows=rows: F.cross_entropy(net(X[:rows]), Y[:rows]))
        shares = [lambda n=n, rows=rows: F.cross_entropy(net(X[n : n + 1]), Y[n : n + 1]) / rows for n in range(rows)]
        check(seen, one_by_one(net, shares))
    assert trial.settings.structures.asked == 1


def test_a_flattened_output_asks_a_few_times_only() -> None:
    """Samples and positions share its first axis: no search that grows with the square of the graph."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.rnn, self.head = nn.Embedding(9, 4), nn.GRU(4, 4, 2), nn.Linear(4, 9)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(self.words(x))[0]).view(-1, 9)

    torch.manual_seed(0)
    net = Words().double()
    trial = Trial(net)
    trial.settings.batch_axis = 1
    x = torch.randint(9, (20, 4))
    passes = 0
    original = torch.autograd.grad

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal passes
        passes += 1
        return original(*args, **kwargs)  # type: ignore[arg-type]

    torch.autograd.grad = counted  # type: ignore[assignment]
    try:
        seen = trial.step(lambda: F.cross_entropy(net(x), x.flatten()))
        assert passes <= 8
        trial.step(lambda: F.cross_entropy(net(x), x.flatten()))
        assert passes <= 8
    finally:
        torch.autograd.grad = original
    shares = [lambda n=n: F.cross_entropy(net(x[:, n : n + 1]), x[:, n]) / 4 for n in range(4)]
    check(seen, one_by_one(net, shares))
