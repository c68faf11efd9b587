"""What arrives at wanted operations, column by column, against autograd."""

from __future__ import annotations

import pytest
import torch
from tests.engine.curvature.curved import curved
from tests.engine.curvature.nets import LOSSES, Apply, C, N, prepared
from torch import Tensor, nn

from cockpit.engine.curvature.sender import Sender


@pytest.mark.parametrize("name", ["perceptron", "residual", "overlapping pools", "attention", "own operation"])
def test_columns_arrive_as_autograd_sends_them(name: str) -> None:
    model, inputs = prepared(name)
    given, looped = curved(model, inputs, LOSSES["squares"]), set[str]()
    sender = Sender([(given.source.node, 0)], given.network.uses.edges, looped)
    seeds = torch.randn(3, N, C, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        arrived = dict(sender([seeds]))
    for column, seed in enumerate(seeds):
        for node, grads in sender.by_autograd([seed[None]]):
            torch.testing.assert_close(arrived[node][0][column], grads[0][0])  # type: ignore[index]
    assert not looped  # a user's own operation is never tried
    assert sender.largest <= sender.whole


def test_operations_without_a_rule_for_many_columns_are_remembered() -> None:
    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x.register_hook(lambda grad: grad * float(grad.abs().sum() >= 0))
            return x.sin()

    model = Apply(lambda x, a, b, c: c(b(a(x))), nn.Linear(5, 4), Looks(), nn.Linear(4, C)).double()
    given, looped = curved(model, torch.randn(N, 5).double(), LOSSES["squares"]), set[str]()
    sender = Sender([(given.source.node, 0)], given.network.uses.edges, looped)
    seeds = torch.randn(3, N, C, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        assert len(dict(sender([seeds]))) == 2
    assert looped
