"""Every edge into a parameter is explained, or the parameter is uncovered with the reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from tests.engine.walked import Trial, check, one_by_one
from torch import Tensor, nn

N = 6


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, 5, generator=generator).double(), torch.randint(3, (N,), generator=generator)


X, Y = batch()


def loss_of(net: nn.Module, n: int | None = None) -> Tensor:
    x, y = (X, Y) if n is None else (X[n : n + 1], Y[n : n + 1])
    return F.cross_entropy(net(x), y, reduction="sum")


def build(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return make().double()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


class TwoWays(nn.Module):
    """A weight that is used by a matrix product and, expanded, by a contraction that has no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 5) / 3)
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        expanded = self.weight.expand(len(x), 5, 5)
        return self.head(torch.tanh(x @ self.weight) + torch.einsum("ni,nij->nj", x, expanded))


class Temperature(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.scale = nn.Linear(5, 3), nn.Parameter(torch.tensor(1.3))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) * self.scale


def normed() -> nn.Module:
    model = mlp()
    nn.utils.parametrizations.weight_norm(model[0])
    return model


@pytest.mark.parametrize("make", [mlp, TwoWays, Temperature, normed])
def test_every_use_counts(make: Callable[[], nn.Module]) -> None:
    net = build(make)
    trial = Trial(net)
    for _ in range(2):  # asked, and remembered
        seen = trial.step(lambda: loss_of(net))
        assert seen.names == [name for name, _ in net.named_parameters()]
        check(seen, one_by_one(net, [partial(loss_of, net, n) for n in range(N)]))
    assert trial.settings.structures.asked == 1


TERMS: dict[str, Callable[[nn.Module], Tensor]] = {
    "l2": lambda net: sum(p.square().sum() for p in net.parameters()),  # type: ignore[misc]
    "l1 of one": lambda net: next(net.parameters()).abs().sum() / 2,
    "norm": lambda net: next(net.parameters()).norm() + 3 * next(net.parameters()).pow(4).mean(),
}


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS.keys())
@pytest.mark.parametrize("make", [mlp, normed])
def test_terms_of_parameters_alone_belong_to_no_sample(
    make: Callable[[], nn.Module], term: Callable[..., Tensor]
) -> None:
    net = build(make)
    seen = Trial(net).step(lambda: loss_of(net) + 0.1 * term(net))
    assert seen.regularised
    assert not seen.uncovered
    check(seen, one_by_one(net, [partial(loss_of, net, n) for n in range(N)]))


UNPROVED: dict[str, Callable[[nn.Module], Tensor]] = {
    "samples beside the model": lambda net: (X @ net[0].weight.T).square().sum(),  # type: ignore[index,operator]
    "numbers that are not seen": lambda net: (net[0].weight - torch.ones(4, 5)).square().sum(),  # type: ignore[index]
    "times the loss": lambda net: loss_of(net) * net[0].weight.square().sum(),  # type: ignore[index,operator]
}


@pytest.mark.parametrize("term", UNPROVED.values(), ids=UNPROVED.keys())
def test_what_is_not_proved_is_uncovered(term: Callable[[nn.Module], Tensor]) -> None:
    net = build(mlp)
    seen = Trial(net).step(lambda: loss_of(net) + 0.1 * term(net))
    assert "0.weight" not in seen.names
    assert "samples" in seen.uncovered["0.weight"]


@pytest.mark.parametrize("factor", [2.0, 0.0])
def test_a_hook_that_changes_a_gradient_shows(factor: float) -> None:
    net = build(mlp)
    net[2].weight.register_hook(lambda grad: grad * factor)  # type: ignore[index,operator,union-attr]
    seen = Trial(net).step(lambda: loss_of(net))
    assert "does not add up" in seen.uncovered["2.weight"]
    check(seen, one_by_one(net, [partial(loss_of, net, n) for n in range(N)]))


def test_a_true_gradient_of_zero_is_covered() -> None:
    class Keys(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))

    net = build(Keys)
    x = torch.randn(N, 3, 4, generator=torch.Generator().manual_seed(3)).double()
    seen = Trial(net).step(lambda: F.cross_entropy(net(x), Y))
    assert not seen.uncovered
    assert not seen.regularised
