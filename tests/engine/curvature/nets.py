"""Small nets and losses of every kind that the curvature must know, in double precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

N, C = 4, 3
LABELS = torch.tensor([0, 2, 1, 1])
GRID = torch.tensor([[0, 2, 1], [1, 1, 0], [2, 0, 2], [0, 1, 1]])
WEIGHT = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
SOFT = torch.linspace(-1, 2, N * C, dtype=torch.float64).reshape(N, C).softmax(1)


Function = Callable[..., Tensor]


class Apply(nn.Module):
    """Layers and a function of them."""

    def __init__(self, function: Function, *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.layers)


class Doubled(torch.autograd.Function):
    """A user's own operation, which looks at numbers in its backward."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        return 2 * grad if float(grad.detach().sum()) != 0.125 else grad


def conv(*layers: nn.Module, size: int = 7, channels: int = 2) -> tuple[nn.Module, Tensor]:
    """Layers on images, then classes."""
    torch.manual_seed(1)
    inputs = torch.randn(N, channels, size, size)
    width = nn.Sequential(*layers)(inputs).flatten(1).shape[1]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, C)), inputs


def pooled(pool: nn.Module, **options: int) -> tuple[nn.Module, Tensor]:
    return conv(nn.Conv2d(2, 4, 3, **options), nn.ReLU(), pool, nn.Conv2d(4, 3, 2), nn.ReLU(), size=9)


def vectors(*layers: nn.Module, shape: tuple[int, ...] = (N, 5)) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(1)
    return nn.Sequential(*layers), torch.randn(*shape)


def of(function: Function, *layers: nn.Module, shape: tuple[int, ...] = (N, 5)) -> tuple[nn.Module, Tensor]:
    return Apply(function, *layers), vectors(shape=shape)[1]


def attention(x: Tensor, queries: nn.Module, values: nn.Module, last: nn.Module) -> Tensor:
    weights = (queries(x) @ x.mT).softmax(-1)
    return last((weights @ values(x)).mean(1))


def tied(x: Tensor, layer: nn.Module, last: nn.Module) -> Tensor:
    return last(torch.tanh(layer(torch.relu(layer(x)))))


def turned(x: Tensor, layer: nn.Module, last: nn.Module) -> Tensor:
    """The decoder is the encoder, transposed."""
    return last(torch.tanh(layer(x)) @ layer.weight)


def recurrent(x: Tensor, inner: nn.Module, outer: nn.Module, last: nn.Module) -> Tensor:
    state = torch.zeros(len(x), 4, dtype=x.dtype)
    for t in range(x.shape[1]):
        state = torch.tanh(inner(x[:, t]) + outer(state))
    return last(state)


def frozen() -> tuple[nn.Module, Tensor]:
    model, inputs = vectors(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, C))
    model[2].requires_grad_(False)
    model[4].bias.requires_grad_(False)
    return model, inputs


NETS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "linear": lambda: vectors(nn.Linear(5, C)),
    "perceptron": lambda: vectors(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, C)),
    "layer norm": lambda: vectors(nn.Linear(5, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, C)),
    "positions": lambda: vectors(
        nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3), nn.Flatten(), nn.Linear(9, C), shape=(N, 3, 5)
    ),
    "attention": lambda: of(attention, nn.Linear(5, 5), nn.Linear(5, 4, bias=False), nn.Linear(4, C), shape=(N, 3, 5)),
    "tied": lambda: of(tied, nn.Linear(5, 5), nn.Linear(5, C)),
    "tied and turned": lambda: of(turned, nn.Linear(5, 4), nn.Linear(5, C)),
    "recurrent": lambda: of(recurrent, nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, C), shape=(N, 3, 5)),
    "frozen": frozen,
    "residual": lambda: of(lambda x, a, b: b(x + torch.relu(a(x)) + 0.5 * a(x)), nn.Linear(5, 5), nn.Linear(5, C)),
    "own operation": lambda: of(lambda x, a, b: b(Doubled.apply(a(x))), nn.Linear(5, 4), nn.Linear(4, C)),
    "fixed batch norm": lambda: vectors(nn.Linear(5, 4), nn.BatchNorm1d(4).eval(), nn.Tanh(), nn.Linear(4, C)),
    "convolution": lambda: conv(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 1)),
    "geometry": lambda: conv(nn.Conv2d(2, 4, (3, 2), (2, 1), (1, 2), (1, 2)), nn.ReLU()),
    "groups": lambda: conv(nn.Conv2d(4, 6, 3, groups=2, padding=1), nn.ReLU(), channels=4),
    "transposed": lambda: conv(nn.ConvTranspose2d(2, 3, 3, stride=2), nn.ReLU(), size=3),
    "overlapping pools": lambda: pooled(nn.MaxPool2d(3, 2, ceil_mode=True), padding=1),
    "pools": lambda: pooled(nn.MaxPool2d(2)),
    "pool of a norm": lambda: conv(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2)),
    "average": lambda: conv(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 3, 2)),
    "one place": lambda: conv(nn.Conv2d(2, 4, 7), nn.Tanh()),
}
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "cross entropy": lambda o: F.cross_entropy(o, LABELS),
    "sum": lambda o: F.cross_entropy(o, LABELS, reduction="sum"),
    "weights": lambda o: F.cross_entropy(o, LABELS, WEIGHT),
    "both signs": lambda o: (F.cross_entropy(o, LABELS, reduction="none") * torch.tensor([1.0, -2, 3, -1])).sum(),
    "binary": lambda o: F.binary_cross_entropy_with_logits(o, SOFT, pos_weight=WEIGHT),
    "squares": lambda o: F.mse_loss(o, torch.zeros_like(o)),
    "own": lambda o: o.exp().sum() - 2 * o.square().sum(),
}


def prepared(name: str) -> tuple[nn.Module, Tensor]:
    """A net with larger weights, and its inputs."""
    model, inputs = NETS[name]()
    torch.manual_seed(2)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.double(), inputs.double()
