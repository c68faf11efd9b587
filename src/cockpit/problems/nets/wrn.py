"""Wide residual networks (Zagoruyko and Komodakis, 2016), with activation before convolution."""

from torch import Tensor, nn

from cockpit.problems.nets.init import glorot_uniform, initialise, seeded
from cockpit.problems.nets.same import Conv2dSame


def wrn(seed: int, units: int, widening: int, classes: int) -> nn.Module:
    """Three groups of ``units`` residual units; depth 6 * units + 4, ``widening`` times as wide as a plain one."""
    with seeded(seed):
        layers: list[nn.Module] = [Conv2dSame(3, 16, 3, bias=False)]
        inputs = 16
        for width, stride in ((16, 1), (32, 2), (64, 2)):
            outputs = width * widening
            layers.append(FirstUnit(inputs, outputs, stride))
            layers += [Unit(outputs) for _ in range(units - 1)]
            inputs = outputs
        layers += [nn.BatchNorm2d(inputs), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
        model = nn.Sequential(*layers)
        initialise(model, glorot_uniform)
    return model


def _residual(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Convolution, normalisation, activation, convolution."""
    return nn.Sequential(
        Conv2dSame(inputs, outputs, 3, stride, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        Conv2dSame(outputs, outputs, 3, bias=False),
    )


class Unit(nn.Module):
    """A residual unit that adds to its untouched input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.activation = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())
        self.residual = _residual(channels, channels, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map [N, C, H, W] to the same shape."""
        outputs: Tensor = inputs + self.residual(self.activation(inputs))
        return outputs


class FirstUnit(nn.Module):
    """The first unit of a group: the shortcut is a 1 x 1 convolution of the activated input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.activation = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.shortcut = Conv2dSame(inputs, outputs, 1, stride, bias=False)
        self.residual = _residual(inputs, outputs, stride)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map [N, I, H, W] to [N, O, H / stride, W / stride]."""
        active = self.activation(inputs)
        outputs: Tensor = self.shortcut(active) + self.residual(active)
        return outputs
