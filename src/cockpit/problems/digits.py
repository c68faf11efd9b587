"""Digits: small pictures of the ten digits, drawn from bitmaps with random shape, contrast and noise; no download."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from cockpit.core.errors import unknown
from cockpit.problems._base import Place, Problem, Splits, Variant
from cockpit.problems._criteria import accuracies, cross_entropy
from cockpit.problems.data.batches import Resident
from cockpit.problems.data.splits import train_eval
from cockpit.problems.nets.init import seeded

SIZE = 12  # height and width of a picture
SAMPLES = {"train": 4096, "test": 1024}
HELD_OUT = 1024  # of the training pictures, for validation
GLYPHS = """
.###. ..#.. .###. ####. ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... ....# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### ####. ...#. .###. .###. .#... .###. .##..
"""


def glyphs() -> Tensor:
    """Return the ten bitmaps, [10, 1, 7, 5]."""
    lines = [line.split() for line in GLYPHS.split("\n") if line]
    rows = [[[float(dot == "#") for dot in word] for word in line] for line in lines]
    return torch.tensor(rows).transpose(0, 1).unsqueeze(1)


def render(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a picture of each digit, [N, 1, SIZE, SIZE]: turned, sheared, scaled, shifted, then contrast and noise."""
    count = len(labels)

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    angle, shear, scale = uniform(-0.3, 0.3), uniform(-0.3, 0.3), uniform(0.95, 1.3)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    wide = 7 / 5  # a bitmap is narrower than the square it is drawn in
    top = torch.stack([wide * cos, wide * (shear * cos - sin), uniform(-0.2, 0.2)], dim=1)
    bottom = torch.stack([sin, shear * sin + cos, uniform(-0.2, 0.2)], dim=1)
    grid = F.affine_grid(torch.stack([top, bottom], dim=1), [count, 1, SIZE, SIZE], align_corners=False)
    drawn = F.grid_sample(glyphs()[labels], grid, align_corners=False)
    contrast = uniform(0.5, 1.0).reshape(-1, 1, 1, 1)
    noise = 0.2 * torch.randn(drawn.shape, generator=generator)
    return (contrast * drawn + noise - 0.15) / 0.4  # about mean 0, deviation 1


def draw(split: str, seed: int = 0) -> TensorDataset:
    """Return the pictures and labels of ``"train"`` or ``"test"``."""
    if split not in SAMPLES:
        raise unknown("split", split, SAMPLES)
    generator = torch.Generator().manual_seed(2 * seed + list(SAMPLES).index(split))
    labels = torch.randint(10, (SAMPLES[split],), generator=generator)
    return TensorDataset(render(labels, generator), labels)


def data(place: Place, variant: Variant) -> Splits:
    """Return pictures drawn from seed 0; no file is read or written."""
    (pictures, labels), (unseen, truth) = draw("train").tensors, draw("test").tensors
    trained = len(labels) - HELD_OUT if variant.validation else len(labels)
    train, test = Resident(pictures[:trained], labels[:trained]), Resident(unseen, truth)
    valid = Resident(pictures[trained:], labels[trained:]) if variant.validation else None
    return Splits(train, train_eval(train, test), valid, test)


def model(seed: int = 0) -> nn.Module:
    """Return a network of two convolutions and a linear layer, 2698 parameters."""
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * (SIZE // 4) ** 2, 10),
        )


digits = Problem(
    name="digits",
    summary="two convolutions and a dense layer on drawn digits",
    model=model,
    data=data,
    losses=cross_entropy,
    accuracies=accuracies,
    batch_size=64,
    epochs=20,
)
