"""2c2d: two convolutions and two dense layers for pictures of 28 x 28."""

from torch import nn

from cockpit.problems.nets.init import initialise, seeded, truncated_normal
from cockpit.problems.nets.same import Conv2dSame


def c2d2(seed: int) -> nn.Module:
    """A variant of LeNet-5 with wide layers."""
    with seeded(seed):
        model = nn.Sequential(
            Conv2dSame(1, 32, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            Conv2dSame(32, 64, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(7 * 7 * 64, 1024),
            nn.ReLU(),
            nn.Linear(1024, 10),
        )
        initialise(model, truncated_normal(0.05), bias=0.05)
    return model
