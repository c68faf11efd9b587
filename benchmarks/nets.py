"""The four nets of the paper's overhead experiments."""

from collections.abc import Callable
from itertools import pairwise

from torch import nn

Net = tuple[nn.Module, tuple[int, ...]]  # and the shape of one input


def logreg() -> Net:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), (1, 28, 28)


def mlp() -> Net:
    widths = (784, 1000, 500, 100)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(100, 10)), (1, 28, 28)


def c2d2() -> Net:
    features = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10)), (1, 28, 28)


def c3d3() -> Net:
    features: list[nn.Module] = []
    for channels, width, kernel, padding in ((3, 64, 5, 0), (64, 96, 3, 0), (96, 128, 3, 1)):
        features += [nn.Conv2d(channels, width, kernel, padding=padding), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    head = [nn.Linear(1152, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*features, nn.Flatten(), *head), (3, 32, 32)


NETS: dict[str, Callable[[], Net]] = {"logreg": logreg, "mlp": mlp, "2c2d": c2d2, "3c3d": c3d3}
