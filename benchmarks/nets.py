"""What is trained in the benchmarks: the four nets of the paper's overhead experiments, and two large kinds.

Nothing here imports a tool that watches: the original's benchmark trains the same nets.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import cycle, pairwise

import torch
from large_nets import Transformer, resnet
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
BATCHES = 4  # drawn once and used in turn


@dataclass(frozen=True)
class Net:
    """A net and its data; a sequence model has one label for each token."""

    make: Callable[[], nn.Module]
    inputs: tuple[int, ...]  # shape of one sample
    batch: int = 128
    classes: int = 10
    tokens: bool = False  # the inputs are numbers of tokens
    half: bool = False  # forward pass in bfloat16 by autocast


def logreg() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def mlp() -> nn.Module:
    widths = (784, 1000, 500, 100)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(100, 10))


def c2d2() -> nn.Module:
    features = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10))


def c3d3() -> nn.Module:
    features: list[nn.Module] = []
    for channels, width, kernel, padding in ((3, 64, 5, 0), (64, 96, 3, 0), (96, 128, 3, 1)):
        features += [nn.Conv2d(channels, width, kernel, padding=padding), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    head = [nn.Linear(1152, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*features, nn.Flatten(), *head)


def tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


NETS: dict[str, Net] = {
    "logreg": Net(logreg, (1, 28, 28)),
    "mlp": Net(mlp, (1, 28, 28)),
    "2c2d": Net(c2d2, (1, 28, 28)),
    "3c3d": Net(c3d3, (3, 32, 32)),
}
LARGE: dict[str, Net] = {
    "resnet50": Net(lambda: resnet((3, 4, 6, 3)), (3, 224, 224), batch=64, classes=1000),
    "gpt2": Net(lambda: Transformer(50257, 1024, 768, 12, 12), (1024,), batch=8, classes=50257, tokens=True),
    "gpt2-bf16": Net(
        lambda: Transformer(50257, 1024, 768, 12, 12), (1024,), batch=8, classes=50257, tokens=True, half=True
    ),
    # the same structure at a size that a CPU trains
    "resnet-small": Net(lambda: resnet((1, 1, 1, 1), width=16, classes=10), (3, 32, 32), batch=16),
    "gpt-small": Net(lambda: Transformer(500, 64, 128, 2, 4), (64,), batch=8, classes=500, tokens=True),
}
EVERY: dict[str, Net] = NETS | LARGE | {"tiny": Net(tiny, (6,), batch=8, classes=3)}


class Problem:
    """A net with its optimizer, loss and data, ready to take steps."""

    def __init__(self, name: str, device: str = "cpu", optimizer: str = "SGD") -> None:
        torch.manual_seed(0)
        self.net, self.device = EVERY[name], device
        self.model = self.net.make().to(device)
        self.loss_fn: nn.Module = nn.CrossEntropyLoss()
        self.optimizer: torch.optim.Optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), lr=1e-3)
        self.batches: Iterator[Batch] = cycle([self._draw() for _ in range(BATCHES)])

    def _draw(self) -> Batch:
        net, device = self.net, self.device
        shape = (net.batch, *net.inputs)
        if net.tokens:
            return torch.randint(net.classes, shape, device=device), torch.randint(net.classes, shape, device=device)
        return torch.rand(shape, device=device), torch.randint(net.classes, (net.batch,), device=device)

    def precision(self) -> AbstractContextManager[object]:
        """What the forward pass runs under."""
        return torch.autocast(self.device, torch.bfloat16) if self.net.half else nullcontext()

    def loss(self) -> Tensor:
        """The loss of the next batch."""
        inputs, labels = next(self.batches)
        with self.precision():
            outputs = self.model(inputs)
            if self.net.tokens:
                outputs, labels = outputs.flatten(0, 1), labels.flatten()
            found: Tensor = self.loss_fn(outputs, labels)
        return found

    def step(self) -> None:
        """One step of training, as anybody writes it."""
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()
