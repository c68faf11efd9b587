"""Tiny models, convolutional and fully connected ones first, odd ones after."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mlp(activation: Callable[[], nn.Module] = nn.ReLU, widths: tuple[int, ...] = (5, 6, 4, 3)) -> nn.Sequential:
    """Linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for i, o in pairwise(widths):
        layers += [nn.Linear(i, o), activation()]
    return nn.Sequential(*layers[:-1])


def log_softmax_mlp() -> nn.Sequential:
    return nn.Sequential(*mlp(nn.Tanh), nn.LogSoftmax(-1))


def cnn() -> nn.Sequential:
    """Stride, padding, dilation, groups: [N, 2, 8, 8] -> [N, 3]."""
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 2, dilation=2, groups=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def margins_cnn() -> nn.Module:
    """Images that are equally large with their margins, but not without."""
    wide, narrow = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 3, 5, padding=2)
    return nn.Sequential(
        wide, nn.Tanh(), nn.Conv2d(2, 2, 3), nn.Tanh(), narrow, nn.Tanh(), nn.Flatten(), nn.Linear(48, 3)
    )


def padded_cnn(mode: str) -> nn.Sequential:
    """A padding mode other than zeros, and padding="same": [N, 1, 5, 5] -> [N, 3]."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=(1, 2), padding_mode=mode),
        nn.Tanh(),
        nn.Conv2d(2, 2, (2, 3), padding="same", padding_mode=mode),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    )


def conv1d() -> nn.Sequential:
    """[N, 2, 7] -> [N, 3]."""
    return nn.Sequential(
        nn.Conv1d(2, 4, 3, stride=2, padding=2, bias=False),
        nn.ReLU(),
        nn.Conv1d(4, 2, 2, groups=2, dilation=2),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


def conv3d() -> nn.Sequential:
    """[N, 1, 3, 4, 3] -> [N, 3]."""
    return nn.Sequential(
        nn.Conv3d(1, 2, 2, stride=(1, 2, 1), padding=(0, 1, 0)),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(24, 3),
    )


def conv_transpose() -> nn.Sequential:
    """Upsampling in two and one dimension: [N, 2, 3, 3] -> [N, 3]."""
    return nn.Sequential(
        nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(2),
        nn.ConvTranspose1d(4, 1, 2, dilation=2, stride=2, bias=False),
        nn.Flatten(),
        nn.Linear(19, 3),
    )


class ResNet(nn.Module):
    """Convolution, a residual block with a norm, pooling: [N, 1, 5, 5] -> [N, 3]."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.norm1 = norm(4)
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm2 = norm(4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.stem(x)))
        x = F.relu(self.norm2(self.conv(x)) + x)
        return self.head(x.mean((2, 3)))


def seen_before(model: nn.Module) -> nn.Module:
    """The model in evaluation mode, its running statistics not the trivial ones."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model.eval()


def batch_norm_mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))


def norm_mlp(norm: Callable[[int], nn.Module]) -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 6), norm(6), nn.GELU(), nn.Linear(6, 3))


def prelu_cnn() -> nn.Sequential:
    """One slope for all, and one for each channel: [N, 2, 4, 4] -> [N, 3]."""
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.PReLU(3), nn.Flatten(), nn.Linear(12, 4), nn.PReLU(),
        nn.Linear(4, 3),
    )  # fmt: skip


def autoencoder() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 3), nn.Sigmoid(), nn.Linear(3, 6))


class TiedAutoencoder(nn.Module):
    """The decoder is the encoder's weight, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 3)
        self.bias = nn.Parameter(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Twice(nn.Module):
    """One layer called twice, and the same layer once more under a second name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)
        self.alias = self.layer
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.layer(x))
        x = torch.tanh(self.layer(x)) + x
        return self.head(torch.tanh(self.alias(x)))


class InPlace(nn.Module):
    """In-place activations and an in-place residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.relu = nn.ReLU(inplace=True)
        self.second = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(x))
        y = self.second(x)
        y += x
        return self.head(F.relu_(y))


class Affine(nn.Module):
    """A module of the user's with parameters and no child."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift


class Gated(nn.Module):
    """A container that also holds a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.affine = Affine(5)
        self.body = mlp(nn.Tanh, (5, 4, 5))
        self.gate = nn.Parameter(torch.tensor(0.3))
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + torch.sigmoid(self.gate) * self.body(self.affine(x)))


class TwoInputs(nn.Module):
    """A module with two inputs: [N, 3], [N, 2] -> [N, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.bilinear = nn.Bilinear(3, 2, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.head(torch.tanh(self.bilinear(a, b)))


def frozen() -> nn.Sequential:
    """First layer and one later bias are not trained."""
    model = mlp(nn.Tanh)
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


class Unused(nn.Module):
    """A parameter that the forward pass never touches."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(nn.Tanh)
        self.spare = nn.Parameter(torch.ones(7))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def weight_norm() -> nn.Sequential:
    """A weight that is computed from parameters, not from samples."""
    model = mlp(nn.Tanh)
    nn.utils.parametrizations.weight_norm(model[2])
    return model


def zero_linear() -> nn.Linear:
    """A model at a perfect fit of zero targets."""
    model = nn.Linear(4, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model
