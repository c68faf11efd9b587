"""Layers with "same" padding against loops over positions."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from cockpit.problems.nets.same import Conv2dSame, ConvTranspose2dSame, MaxPool2dSame, padding

CASES = list(product((1, 5, 6, 7), (1, 2, 3, 4, 5), (1, 2, 3)))  # size, kernel, stride


def padded(inputs: Tensor, kernel: int, stride: int, value: float) -> Tensor:
    """The inputs with what is missing for ceil(size / stride) windows, the larger half at the end."""
    size = inputs.shape[-1]
    missing = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    full = torch.full((*inputs.shape[:2], size + missing, size + missing), value)
    before = missing // 2
    full[:, :, before : before + size, before : before + size] = inputs
    return full


def windows(inputs: Tensor, kernel: int, stride: int, value: float) -> list[list[Tensor]]:
    """What each output position sees, [N, C, kernel, kernel]."""
    count = -(-inputs.shape[-1] // stride)
    full = padded(inputs, kernel, stride, value)
    starts = [stride * place for place in range(count)]
    return [[full[:, :, i : i + kernel, j : j + kernel] for j in starts] for i in starts]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "expected"),
    [
        (32, 3, 2, (0, 1)),
        (28, 4, 2, (1, 1)),
        (7, 4, 1, (1, 2)),
        (28, 3, 2, (0, 1)),
        (5, 1, 2, (0, 0)),
        (4, 2, 3, (0, 1)),
    ],
)
def test_padding_by_hand(size: int, kernel: int, stride: int, expected: tuple[int, int]) -> None:
    assert padding(size, kernel, stride) == expected


@pytest.mark.parametrize(("size", "kernel", "stride"), CASES)
def test_convolution_is_a_loop_over_windows(size: int, kernel: int, stride: int) -> None:
    torch.manual_seed(0)
    inputs, layer = torch.randn(2, 3, size, size), Conv2dSame(3, 4, kernel, stride)
    with torch.no_grad():
        rows = [
            [torch.einsum("ncij,ocij->no", seen, layer.weight) + layer.bias for seen in row]
            for row in windows(inputs, kernel, stride, 0.0)
        ]
        expected = torch.stack([torch.stack(row, dim=2) for row in rows], dim=2)
        torch.testing.assert_close(layer(inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("size", "kernel", "stride"), [case for case in CASES if case[0] > 1])
def test_pooling_is_a_loop_over_windows(size: int, kernel: int, stride: int) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2, 3, size, size) - 5  # zeros would win
    rows = [[seen.amax((2, 3)) for seen in row] for row in windows(inputs, kernel, stride, -math.inf)]
    expected = torch.stack([torch.stack(row, dim=2) for row in rows], dim=2)
    assert torch.equal(MaxPool2dSame(kernel, stride)(inputs), expected)


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(3, 4, 2), (3, 4, 1), (4, 3, 2), (4, 1, 2), (3, 2, 3), (3, 5, 1)]
)
def test_transposed_convolution_is_the_adjoint_of_the_convolution(size: int, kernel: int, stride: int) -> None:
    """<y, conv(x)> = <transposed(y), x> for all x and y, if both have the same weight and no bias."""
    torch.manual_seed(0)
    forward = Conv2dSame(3, 4, kernel, stride, bias=False).double()
    back = ConvTranspose2dSame(4, 3, kernel, stride, bias=False).double()
    back.weight.data = forward.weight.data
    wide, small = torch.randn(2, 3, size * stride, size * stride).double(), torch.randn(2, 4, size, size).double()
    with torch.no_grad():
        assert back(small).shape == wide.shape
        torch.testing.assert_close((small * forward(wide)).sum(), (back(small) * wide).sum())


def test_height_and_width_are_padded_each_by_its_own() -> None:
    inputs = torch.randn(1, 2, 5, 8)
    assert Conv2dSame(2, 3, (1, 7))(inputs).shape == (1, 3, 5, 8)
    assert Conv2dSame(2, 3, (4, 1), (2, 1))(inputs).shape == (1, 3, 3, 8)
    assert ConvTranspose2dSame(2, 3, 4, (2, 1))(inputs).shape == (1, 3, 10, 8)
    assert repr(MaxPool2dSame(3, 2)) == "MaxPool2dSame(kernel_size=3, stride=2)"


@pytest.mark.parametrize(("height", "width"), [(6, 7), (7, 6), (28, 31)])
def test_pooling_of_oblong_pictures(height: int, width: int) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2, 3, height, width) - 5
    square = torch.full((2, 3, 32, 32), -math.inf)  # 32 is padded at its end only, as are these
    square[:, :, :height, :width] = inputs
    found = MaxPool2dSame(3, 2)(inputs)
    assert found.shape == (2, 3, -(-height // 2), -(-width // 2))
    before = [padding(size, 3, 2)[0] for size in (height, width)]
    shifted = square.roll(before, (2, 3))
    assert torch.equal(found, MaxPool2dSame(3, 2)(shifted)[:, :, : found.shape[2], : found.shape[3]])
