"""All-CNN-C (Springenberg et al., 2015): convolutions only, with strides in place of pooling."""

from torch import nn

from cockpit.problems.nets.init import glorot_normal, initialise, seeded
from cockpit.problems.nets.same import Conv2dSame


def allcnnc(seed: int, classes: int, colours: int = 3, width: int = 96) -> nn.Module:
    """Nine convolutions, each with ReLU, the last one too; logits are means over its positions, 6 x 6 of 32 x 32."""
    with seeded(seed):
        model = nn.Sequential(
            nn.Dropout(0.2),
            *_stage(colours, width),
            nn.Dropout(0.5),
            *_stage(width, 2 * width),
            nn.Dropout(0.5),
            *(nn.Conv2d(2 * width, 2 * width, 3), nn.ReLU()),
            *(nn.Conv2d(2 * width, 2 * width, 1), nn.ReLU()),
            *(nn.Conv2d(2 * width, classes, 1), nn.ReLU()),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        initialise(model, glorot_normal, bias=0.1)
    return model


def _stage(inputs: int, outputs: int) -> list[nn.Module]:
    """Three convolutions, the last of which halves height and width."""
    return [
        *(Conv2dSame(inputs, outputs, 3), nn.ReLU()),
        *(Conv2dSame(outputs, outputs, 3), nn.ReLU()),
        *(Conv2dSame(outputs, outputs, 3, stride=2), nn.ReLU()),
    ]
