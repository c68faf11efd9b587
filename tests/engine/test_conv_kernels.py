"""Squares of a convolution's per-sample gradients: four ways against a float64 loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.engine.triton_here import DEVICE, its_own_words, needs_kernels
from torch import Tensor

from cockpit.engine.conv_kernels import nearest, pooled_squares, squares
from cockpit.engine.conv_squares import Convolution, _dense, _scattered
from cockpit.engine.scattered import Scattered
from cockpit.engine.windows import Windows

pytestmark = its_own_words

KERNELS = ("kernel for picked places", "kernel for all positions")
SHAPES = {  # samples, channels in and out, size, kernel, stride, padding, dilation, columns
    "plain": (5, 3, 4, 9, (3, 3), (1, 1), (1, 1), (1, 1), 9),
    "geometry": (3, 2, 3, 11, (3, 2), (2, 1), (0, 1), (1, 2), 20),
    "wide": (2, 5, 2, 8, (5, 5), (1, 1), (0, 0), (1, 1), 2),
    "one": (1, 1, 1, 5, (1, 1), (1, 1), (0, 0), (1, 1), 1),
}


def made(name: str) -> tuple[Convolution, Scattered, Tensor]:
    """A convolution under max-pooling, gradients of its result and signs of the columns."""
    torch.manual_seed(0)
    samples, channels, out, size, kernel, stride, padding, dilation, columns = SHAPES[name]
    inputs, weight = torch.randn(samples, channels, size, size), torch.randn(out, channels, *kernel)
    result = F.conv2d(inputs, weight, None, stride, padding, dilation).relu().to(DEVICE)
    pooled, index = F.max_pool2d(result, min(3, result.shape[3]), 2, ceil_mode=True, return_indices=True)
    grad = Scattered.of(torch.randn(columns, *pooled.shape, device=DEVICE), index, tuple(result.shape))
    windows = Windows(kernel, stride, padding, dilation)
    signal = inputs.to(DEVICE, memory_format=torch.channels_last) if name == "wide" else inputs.to(DEVICE)
    conv = Convolution(signal, windows, 1, tuple(result.shape[2:]))
    return conv, grad.where_positive(result), torch.randn(columns, samples).sign().to(DEVICE)


def one_by_one(conv: Convolution, grad: Scattered, signs: Tensor | None) -> Tensor:
    """Every sample and column by autograd, in double precision."""
    images, gradients = conv.signal.cpu().double(), grad.dense().cpu().double()
    shape = gradients.shape[2], images.shape[1], *conv.windows.kernel
    total = torch.zeros(shape, dtype=torch.float64)
    for k, column in enumerate(gradients):
        for n in range(len(images)):
            weight = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
            result = F.conv2d(images[n : n + 1], weight, None, *conv.windows[1:])
            found = torch.autograd.grad(result, weight, column[n : n + 1])[0]
            total += found.square() * (1 if signs is None else float(signs[k, n]))
    return total


def channels_first(total: Tensor, conv: Convolution) -> Tensor:
    """As the weight has them."""
    return total.view(len(total), *conv.windows.kernel, -1).movedim(-1, 1)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("way", ["dense", "scattered", *(pytest.param(k, marks=needs_kernels) for k in KERNELS)])
def test_squares(way: str, name: str, signed: bool) -> None:
    conv, grad, signs = made(name)
    given = signs if signed else None
    if way == "dense":
        found = channels_first(_dense(conv, grad, given, grad.value.shape[2], 4000), conv)
    elif way == "scattered":
        found = channels_first(_scattered(conv, grad, given), conv)
    elif way == "kernel for picked places":
        found = pooled_squares(conv.signal, grad, given, conv.windows, rounded=False)
    else:
        found = squares(conv.signal, grad.dense(), given, conv.windows, rounded=False)
    expected = one_by_one(conv, grad, given)
    scale = float(one_by_one(conv, grad, None).abs().max()) + 1e-30
    torch.testing.assert_close(found.cpu().double() / scale, expected / scale, rtol=1e-5, atol=1e-6)


@needs_kernels
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("way", KERNELS)
def test_inputs_of_ten_bits_lose_nothing(way: str, name: str) -> None:
    """What the user's convolutions round is rounded to the nearest first: products of ten bits leave out the rest."""
    conv, grad, _ = made(name)
    conv, grad = replace(conv, signal=nearest(conv.signal)), replace(grad, value=nearest(grad.value))
    if way == "kernel for picked places":
        found = pooled_squares(conv.signal, grad, None, conv.windows, rounded=True)
    else:
        dense = nearest(grad.dense())  # where two windows picked one place, the sum has more bits
        everywhere = torch.arange(dense[0, 0, 0].numel(), device=DEVICE).expand(*dense.shape[1:3], -1)
        grad = Scattered(dense.flatten(3), everywhere, grad.shape)
        found = squares(conv.signal, dense, None, conv.windows, rounded=True)
    expected = one_by_one(conv, grad, None)
    scale = float(expected.abs().max()) + 1e-30
    torch.testing.assert_close(found.cpu().double() / scale, expected / scale, rtol=1e-5, atol=1e-6)


@needs_kernels
def test_the_nearest_number_of_ten_bits() -> None:
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0**-130, float("inf"), -float("inf"), float("nan")])
    canonical = torch.tensor([0x7FFFFFFF], dtype=torch.int32).view(torch.float32)  # CUDA's own NaN
    generator = torch.Generator().manual_seed(0)
    given = torch.cat(
        [special, canonical, torch.randn(3000, generator=generator) * 10.0 ** torch.arange(-15, 15).repeat(100)]
    )
    mantissa, exponent = np.frexp(given.double().numpy())
    expected = np.ldexp(np.sign(mantissa) * np.floor(np.abs(mantissa) * 2**11 + 0.5), exponent - 11)
    normal = given.isfinite() & (given.abs() > 1e-37)
    found = nearest(given.to(DEVICE)).cpu()
    np.testing.assert_array_equal(found[normal].double().numpy(), expected[normal.numpy()])
    assert torch.equal(found[:8][~normal[:8]].nan_to_num(nan=7.0), given[:8][~normal[:8]].nan_to_num(nan=7.0))
    assert bool(found[8].isnan())
    half = given.half()
    assert nearest(half) is half
