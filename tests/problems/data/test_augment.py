"""Augmentation of a whole batch against one pixel at a time."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from cockpit.problems.data.augment import Crop, Distort, contrasted, saturated, scaled, standardised

Image = NDArray[np.float64]


def pictures(count: int = 12, size: int = 6) -> Tensor:
    return torch.randint(256, (count, 3, size, size), generator=torch.Generator().manual_seed(5), dtype=torch.uint8)


def cropped(image: Image, crop: Crop, draws: list[float]) -> Image:
    padded = np.pad(image, ((0, 0), (crop.pad, crop.pad), (crop.pad, crop.pad)))
    places = padded.shape[1] - crop.size + 1
    top, left = int(draws[0] * places), int(draws[1] * places)
    square = padded[:, top : top + crop.size, left : left + crop.size]
    return square[:, :, ::-1] if crop.mirror and draws[2] < 0.5 else square


def saturated_pixel(rgb: Image, factor: float) -> tuple[float, float, float]:
    if max(rgb) <= 0:
        return (max(rgb),) * 3
    hue, saturation, value = colorsys.rgb_to_hsv(*rgb)
    return colorsys.hsv_to_rgb(hue, min(saturation * factor, 1.0), value)


def distorted(image: Image, draws: list[float]) -> Any:
    image = image + (2 * draws[0] - 1) * 63 / 255
    flat = [saturated_pixel(pixel, 0.5 + draws[1]) for pixel in image.reshape(3, -1).T]
    image = np.array(flat).T.reshape(image.shape)
    mean = image.mean((1, 2), keepdims=True)
    return (image - mean) * (0.2 + 1.6 * draws[2]) + mean


@pytest.mark.parametrize("mirror", [True, False])
def test_distort(mirror: bool) -> None:
    images, crop = pictures(), Crop(4, pad=1, mirror=mirror)
    first, second = (torch.rand(12, 3, generator=generator) for generator in 2 * [torch.Generator().manual_seed(0)])
    whole = Distort(crop)(images, torch.Generator().manual_seed(0))
    assert whole.shape == (12, 3, 4, 4)
    for image, place, colour, found in zip(images, first.tolist(), second.tolist(), whole, strict=True):
        slow = distorted(cropped(image.numpy().astype(float), crop, place), colour)
        np.testing.assert_allclose(found.numpy(), slow, rtol=1e-4, atol=1e-3)


def test_crops_take_every_place_and_both_ways() -> None:
    images = torch.arange(16, dtype=torch.uint8).reshape(1, 1, 4, 4).expand(400, 1, 4, 4)
    crops = Crop(3)(images, torch.Generator().manual_seed(0)).flatten(1).tolist()
    square = np.arange(16).reshape(4, 4)
    places = [square[top : top + 3, left : left + 3] for top in (0, 1) for left in (0, 1)]
    known = {tuple(place.flatten()) for place in places} | {tuple(place[:, ::-1].flatten()) for place in places}
    assert {tuple(crop) for crop in crops} == known
    unmirrored = Crop(3, mirror=False)(images, torch.Generator().manual_seed(0)).flatten(1).tolist()
    assert {tuple(crop) for crop in unmirrored} == {tuple(place.flatten()) for place in places}


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.5, 50.0])
def test_saturation(factor: float) -> None:
    images = pictures().float() - 0.2
    images[0] = torch.tensor([-0.1, -0.15, -0.2])[:, None, None]  # below black, where brightness may lead
    images[1, 0] = 77.0
    found = saturated(images, torch.full((12,), factor))
    for image, changed in zip(images.numpy(), found, strict=True):
        slow = [saturated_pixel(pixel, factor) for pixel in image.reshape(3, -1).T.astype(float)]
        np.testing.assert_allclose(changed.flatten(1).T, slow, rtol=1e-4, atol=1e-3)


def test_contrast_keeps_the_mean_of_each_channel() -> None:
    images = pictures().float()
    factors = torch.linspace(0, 2, 12)
    found = contrasted(images, factors)
    torch.testing.assert_close(found.mean((2, 3)), images.mean((2, 3)))
    torch.testing.assert_close(found.std((2, 3)), images.std((2, 3)) * factors[:, None])


def test_standardised() -> None:
    images = pictures().float()
    images[0] = 7.0  # the deviation is 0: divided by 1 / sqrt(108)
    images[1] = 0.0
    images[1, 0, 0, 0] = 1e-3
    found = standardised(images)
    for image, changed in zip(images.double().numpy(), found, strict=True):
        slow = (image - image.mean()) / max(image.std(), 1 / np.sqrt(image.size))
        np.testing.assert_allclose(changed, slow, rtol=1e-4, atol=1e-5)
    assert torch.equal(standardised(pictures()), standardised(pictures().float()))


def test_scaled() -> None:
    assert scaled(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0, 0.2, 1])
