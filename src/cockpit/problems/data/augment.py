"""Random changes to images, for a whole batch at once, on the device of the images.

A few uniform numbers for each image are drawn on the CPU, so that a seed gives the same images on every device.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

BRIGHTNESS = 63 / 255  # added to values between 0 and 255, so practically nothing; kept as the benchmark has it
SATURATION = (0.5, 1.5)
CONTRAST = (0.2, 1.8)


def standardised(images: Tensor) -> Tensor:
    """Each image minus its mean, divided by max(its deviation, 1 / sqrt(number of values)); [N, C, H, W]."""
    images = images.float()
    deviation, mean = torch.std_mean(images, dim=(1, 2, 3), correction=0, keepdim=True)
    return (images - mean) / deviation.clamp(min=images[0].numel() ** -0.5)


def scaled(images: Tensor) -> Tensor:
    """Bytes as numbers between 0 and 1."""
    return images.float() / 255


def uniforms(images: Tensor, numbers: int, generator: torch.Generator) -> Tensor:
    """Numbers between 0 and 1 for each image, [numbers, N], drawn on the CPU."""
    return torch.rand(len(images), numbers, generator=generator).to(images.device, non_blocking=True).T


def cropped(images: Tensor, size: int, top: Tensor, left: Tensor, mirror: Tensor) -> Tensor:
    """The square of each image that begins at ``top``, ``left``, mirrored where asked; [N, C, size, size]."""
    step = torch.arange(size, device=images.device)
    rows = top[:, None] + step  # [N, size]
    columns = left[:, None] + torch.where(mirror[:, None], step.flip(0), step)
    sample = torch.arange(len(images), device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    return images[sample, channel, rows[:, None, :, None], columns[:, None, None, :]]


def saturated(images: Tensor, factor: Tensor) -> Tensor:
    """RGB images with the S of HSV multiplied by a factor for each image and cut at 1, H and V kept.

    With H and V fixed, the distance of every channel to V = max(R, G, B) is proportional to S.
    """
    value, least = images.amax(1, keepdim=True), images.amin(1, keepdim=True)
    largest = value / (value - least).clamp(min=torch.finfo(images.dtype).tiny)  # 1 / S, what makes S = 1
    ratio = torch.minimum(factor[:, None, None, None], largest).clamp(min=0)  # no colour where V is negative
    return value - (value - images) * ratio


def contrasted(images: Tensor, factor: Tensor) -> Tensor:
    """Images whose distance to the mean of each channel is multiplied by a factor for each image."""
    mean = images.mean((2, 3), keepdim=True)
    return (images - mean) * factor[:, None, None, None] + mean


def between(low: float, high: float, uniform: Tensor) -> Tensor:
    """Numbers between 0 and 1, moved to another interval."""
    return low + (high - low) * uniform


def place(last: int, uniform: Tensor) -> Tensor:
    """Numbers between 0 and 1, turned into 0, ..., last."""
    return ((last + 1) * uniform).long().clamp(max=last)  # a product may be rounded up


@dataclass(frozen=True, slots=True)
class Crop:
    """A random square of each image, which may be padded with zeros before and mirrored after."""

    size: int
    pad: int = 0  # on each side
    mirror: bool = True

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment a batch [N, C, H, W]."""
        top, left, flip = uniforms(images, 3, generator)
        padded = F.pad(images, 4 * [self.pad])
        top, left = (place(padded.shape[dim] - self.size, draw) for dim, draw in ((2, top), (3, left)))
        return cropped(padded, self.size, top, left, (flip < 0.5) & self.mirror)


@dataclass(frozen=True, slots=True)
class Distort:
    """A random crop of the zero-padded image, mirrored or not, then random brightness, saturation and contrast."""

    crop: Crop

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment a batch of bytes [N, 3, H, W]; the result are floats on the same scale of 0 to 255."""
        images = self.crop(images, generator).float()
        bright, colour, contrast = uniforms(images, 3, generator)
        images = images + between(-BRIGHTNESS, BRIGHTNESS, bright)[:, None, None, None]
        return contrasted(saturated(images, between(*SATURATION, colour)), between(*CONTRAST, contrast))
