"""3c3d: three convolutions and three dense layers for pictures of 32 x 32."""

from torch import nn

from cockpit.problems.nets.init import glorot_normal, glorot_uniform, initialise, seeded
from cockpit.problems.nets.same import Conv2dSame, MaxPool2dSame


def c3d3(seed: int, classes: int) -> nn.Module:
    """Convolutions of 64, 96 and 128 channels, each pooled, then 512, 256 and ``classes`` units."""
    with seeded(seed):
        model = nn.Sequential(
            nn.Conv2d(3, 64, 5),
            nn.ReLU(),
            MaxPool2dSame(3, 2),
            nn.Conv2d(64, 96, 3),
            nn.ReLU(),
            MaxPool2dSame(3, 2),
            Conv2dSame(96, 128, 3),
            nn.ReLU(),
            MaxPool2dSame(3, 2),
            nn.Flatten(),
            nn.Linear(3 * 3 * 128, 512),
            nn.ReLU(),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Linear(256, classes),
        )
        initialise(model, glorot_normal, dense=glorot_uniform)
    return model
