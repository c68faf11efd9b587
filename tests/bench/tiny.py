"""Problems that train in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cockpit.problems._base import Batch, Place, Problem, Splits, Variant


@dataclass(frozen=True)
class Samples:
    """Tensors as a split."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def steps(self, batch_size: int) -> int:
        return len(self) // batch_size

    def epoch(
        self, batch_size: int, generator: torch.Generator | None = None, shuffle: torch.Generator | None = None
    ) -> Iterator[Batch]:
        drawn = shuffle or generator
        order = torch.arange(len(self)) if drawn is None else torch.randperm(len(self), generator=drawn)
        for rows in order[: self.steps(batch_size) * batch_size].split(batch_size):
            yield self.inputs[rows], self.targets[rows]

    def to(self, device: torch.device | str) -> Samples:
        return Samples(self.inputs.to(device), self.targets.to(device))


def split(seed: int, samples: int) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(3, (samples,), generator=generator)
    return Samples(F.one_hot(targets, 4) + 0.5 * torch.randn(samples, 4, generator=generator), targets)


def data(place: Place, variant: Variant) -> Splits:
    train = split(0, 83)
    return Splits(train, split(0, 40), split(1, 30) if variant.validation else None, split(2, 45))


class Noise(nn.Module):
    """Random in evaluation, too, like an autoencoder that draws its code."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.01 * torch.randn(x.shape, device=x.device)


def model(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3), Noise())


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def accuracies(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.argmax(1) == targets).float()


def problem(**changes: Any) -> Problem:
    """A net with dropout and batch normalisation on 83 samples: 8 steps an epoch."""
    known: dict[str, Any] = {
        "name": "tiny",
        "summary": "a small net on made-up data",
        "model": model,
        "data": data,
        "losses": losses,
        "accuracies": accuracies,
        "batch_size": 10,
        "epochs": 4,
        "l2": 0.01,
    }
    return Problem(**known | changes)
