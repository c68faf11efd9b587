"""VGG16 and VGG19 (Simonyan and Zisserman, 2015) for pictures of 224 x 224."""

from torch import nn

from cockpit.core.errors import CockpitError
from cockpit.problems.nets.init import glorot_normal, glorot_uniform, initialise, seeded

BLOCKS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}  # convolutions before each pooling, by depth
CHANNELS = (64, 128, 256, 512, 512)


def vgg(seed: int, depth: int, classes: int) -> nn.Module:
    """Blocks of 3 x 3 convolutions, each pooled, then two dense layers of 4096 units with dropout, then ``classes``."""
    if depth not in BLOCKS:
        raise CockpitError(f"a VGG of depth {depth!r}: give {' or '.join(map(str, BLOCKS))}")
    with seeded(seed):
        layers: list[nn.Module] = []
        inputs = 3
        for convolutions, outputs in zip(BLOCKS[depth], CHANNELS, strict=True):
            for _ in range(convolutions):
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        layers += [nn.Flatten(), nn.Linear(7 * 7 * 512, 4096), nn.ReLU(), nn.Dropout(0.5)]
        layers += [nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4096, classes)]
        model = nn.Sequential(*layers)
        initialise(model, glorot_normal, dense=glorot_uniform)
    return model
