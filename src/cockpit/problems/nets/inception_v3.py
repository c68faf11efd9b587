"""Inception-v3 (Szegedy et al., 2016) for pictures of 299 x 299, with the auxiliary head."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cockpit.problems.nets.init import glorot_uniform, initialise, seeded
from cockpit.problems.nets.same import Conv2dSame

Kernel = int | tuple[int, int]
AUXILIARY = 0.4  # weight of the auxiliary head's loss
SMOOTHING = 0.1  # of labels
WIDE, TALL = (1, 7), (7, 1)


def unit(inputs: int, outputs: int, kernel: Kernel = 1, stride: int = 1, valid: bool = False) -> nn.Sequential:
    """Convolution without bias, normalisation, ReLU."""
    kind = nn.Conv2d if valid else Conv2dSame
    return nn.Sequential(
        kind(inputs, outputs, kernel, stride, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=3e-4),
        nn.ReLU(),
    )


def units(inputs: int, *steps: tuple[int, Kernel]) -> nn.Sequential:
    """A chain of units, each given by its outputs and kernel."""
    chain = []
    for outputs, kernel in steps:
        chain.append(unit(inputs, outputs, kernel))
        inputs = outputs
    return nn.Sequential(*chain)


class Parallel(nn.ModuleList):
    """Branches that read the same input; their channels are put behind each other."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Concatenate what the branches make of [N, C, H, W]."""
        return torch.cat([branch(inputs) for branch in self], dim=1)


def pooled(inputs: int, outputs: int) -> nn.Sequential:
    """The branch that averages neighbours, without what lies outside of the picture, and projects."""
    return nn.Sequential(nn.AvgPool2d(3, 1, padding=1, count_include_pad=False), unit(inputs, outputs))


def block_a(inputs: int, projection: int) -> nn.Module:
    """Branches of 1 x 1, 5 x 5 and twice 3 x 3 at 35 x 35 positions."""
    return Parallel(
        [
            unit(inputs, 64),
            pooled(inputs, projection),
            units(inputs, (48, 1), (64, 5)),
            units(inputs, (64, 1), (96, 3), (96, 3)),
        ]
    )


def block_b(inner: int) -> nn.Module:
    """Branches of 7 x 7 convolutions, factorised, at 17 x 17 positions."""
    return Parallel(
        [
            unit(768, 192),
            pooled(768, 192),
            units(768, (inner, 1), (inner, WIDE), (192, TALL)),
            units(768, (inner, 1), (inner, TALL), (inner, WIDE), (inner, TALL), (192, WIDE)),
        ]
    )


def block_c(inputs: int) -> nn.Module:
    """Branches that end in two, one wide and one tall, at 8 x 8 positions."""

    def split() -> nn.Module:
        return Parallel([unit(384, 384, (1, 3)), unit(384, 384, (3, 1))])

    return Parallel(
        [
            unit(inputs, 320),
            nn.Sequential(unit(inputs, 384), split()),
            nn.Sequential(units(inputs, (448, 1), (384, 3)), split()),
            pooled(inputs, 192),
        ]
    )


def stem() -> nn.Sequential:
    """From 299 x 299 to 35 x 35 positions of 192 channels."""
    return nn.Sequential(
        unit(3, 32, 3, 2, valid=True),
        unit(32, 32, 3, valid=True),
        unit(32, 64, 3),
        nn.MaxPool2d(3, 2),
        unit(64, 80, valid=True),
        unit(80, 192, 3, valid=True),
        nn.MaxPool2d(3, 2),
    )


def reduction_a() -> nn.Module:
    """From 35 x 35 positions of 288 channels to 17 x 17 of 768."""
    return Parallel(
        [
            nn.MaxPool2d(3, 2),
            unit(288, 384, 3, 2, valid=True),
            nn.Sequential(units(288, (64, 1), (96, 3)), unit(96, 96, 3, 2, valid=True)),
        ]
    )


def reduction_b() -> nn.Module:
    """From 17 x 17 positions of 768 channels to 8 x 8 of 1280."""
    return Parallel(
        [
            nn.MaxPool2d(3, 2),
            nn.Sequential(units(768, (192, 1), (192, WIDE), (192, TALL)), unit(192, 192, 3, 2, valid=True)),
            nn.Sequential(unit(768, 192), unit(192, 320, 3, 2, valid=True)),
        ]
    )


class InceptionV3(nn.Module):
    """The network; in training it also returns the logits of a head half-way."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.early = nn.Sequential(stem(), block_a(192, 32), block_a(256, 64), block_a(288, 64), reduction_a())
        self.middle = nn.Sequential(*(block_b(inner) for inner in (128, 160, 160, 192)))
        self.auxiliary = nn.Sequential(
            nn.AvgPool2d(5, 3),
            unit(768, 128),
            unit(128, 768, 5, valid=True),
            nn.Flatten(),
            nn.Linear(768, classes),
        )
        self.late = nn.Sequential(reduction_b(), block_c(1280), block_c(2048))
        self.head = nn.Sequential(nn.AvgPool2d(8), nn.Dropout(0.8), nn.Flatten(), nn.Linear(2048, classes))

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Map [N, 3, 299, 299] to logits [N, classes]; in training to those of both heads."""
        middle = self.middle(self.early(images))
        logits: Tensor = self.head(self.late(middle))
        return (logits, self.auxiliary(middle)) if self.training else logits


def inception_v3(seed: int, classes: int) -> nn.Module:
    """Build the network."""
    with seeded(seed):
        model = InceptionV3(classes)
        initialise(model, glorot_uniform)
    return model


def losses(outputs: Tensor | tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    """Cross entropy of each picture with smoothed labels, [N]; in training with the auxiliary head's share."""
    if isinstance(outputs, Tensor):
        return F.cross_entropy(outputs, targets, reduction="none", label_smoothing=SMOOTHING)
    main, auxiliary = outputs
    return losses(main, targets) + AUXILIARY * losses(auxiliary, targets)


def accuracies(outputs: Tensor | tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    """1 where the main head is right, else 0, [N]."""
    main = outputs if isinstance(outputs, Tensor) else outputs[0]
    return (main.argmax(1) == targets).float()
