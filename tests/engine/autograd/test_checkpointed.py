"""Checkpointed blocks: the same numbers, the same training, and one more forward pass for a new structure."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from tests.engine.walked import USUAL, Trial
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cockpit.engine.step.settings import Settings


class Block(nn.Module):
    """Operations with rules and without, a norm that counts its calls."""

    def __init__(self, checkpointed: bool | str) -> None:
        super().__init__()
        self.first, self.norm, self.both = nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Bilinear(6, 6, 4)
        self.gain, self.head = nn.Parameter(torch.linspace(0.5, 1.5, 6)), nn.Linear(4, 3)
        self.checkpointed, self.calls = checkpointed, 0

    def body(self, x: Tensor) -> Tensor:
        self.calls += 1
        y = self.norm(torch.tanh(self.first(x))) * self.gain
        return torch.tanh(self.both(y, y))

    def forward(self, x: Tensor) -> Tensor:
        if not self.checkpointed:
            return self.head(self.body(x))
        return self.head(checkpoint(self.body, x, use_reentrant=self.checkpointed == "reentrant"))


def trained(checkpointed: bool | str) -> tuple[list[Any], list[int], dict[str, Tensor]]:
    torch.manual_seed(0)
    net = Block(checkpointed).double()
    trial = Trial(net, USUAL, Settings(buffers=lambda: list(net.buffers())))
    generator = torch.Generator().manual_seed(1)
    seen, calls = [], []
    for _ in range(3):
        x, y = torch.randn(8, 5, generator=generator).double(), torch.randint(3, (8,), generator=generator)
        net.calls = 0
        seen.append(trial.step(lambda x=x, y=y: F.cross_entropy(net(x.requires_grad_()), y), clear=False))
        calls.append(net.calls)
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
        net.zero_grad()
    return seen, calls, net.state_dict()


def test_numbers_are_the_same() -> None:
    plain, once, weights = trained(False)
    seen, calls, same = trained(True)
    assert once == [1, 1, 1]
    assert calls == [3, 2, 2]  # forward, recomputed by the user's pass, and asked where the samples are
    moved = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}  # recomputed twice by torch, too
    for name in weights.keys() - moved:
        assert torch.equal(same[name], weights[name]), name
    assert int(same["norm.num_batches_tracked"]) == 6
    for one, other in zip(plain, seen, strict=True):
        assert one.names == other.names
        assert not other.uncovered
        for name, norms in one.sq_norms().items():
            torch.testing.assert_close(other.sq_norms()[name], norms, rtol=1e-9, atol=1e-15)


def test_reentrant_blocks_are_refused_with_the_remedy() -> None:
    seen, _, _ = trained("reentrant")
    assert seen[0].flaw is not None
    assert "use_reentrant=False" in seen[0].flaw
