"""Two quantities of your own: one asks the engine for individual gradients, one is written in the paper's way."""

import torch
from torch import Tensor, nn

import cockpit
from cockpit.engine.needs import LOSSES
from cockpit.engine.observation import Observation
from cockpit.quantities.quantity import SingleStepQuantity


class HardestSample(SingleStepQuantity):
    """Largest individual loss, in units of the mean."""

    needs = frozenset({LOSSES})

    def measure(self, step: Observation) -> float:
        """Return the ratio."""
        return float(step.losses.max() / step.losses.mean())


class LargestGradient(SingleStepQuantity):
    """Largest absolute element of the gradient."""

    def _compute(self, global_step: int, params: list[Tensor], batch_loss: Tensor) -> float:
        return max(float(p.grad.abs().max()) for p in params if p.grad is not None)


torch.manual_seed(0)
model, loss_fn = nn.Linear(10, 3), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
with cockpit.watch(model, optimizer, loss_fn, quantities=["Loss", HardestSample, LargestGradient], every=1) as pit:
    for _ in range(20):
        x = torch.randn(64, 10)
        optimizer.zero_grad()
        loss_fn(model(x), x[:, :3].argmax(1)).backward()
        optimizer.step()
cockpit.CockpitPlotter().plot(pit)
