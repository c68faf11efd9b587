"""Networks against numpy in float64: channels last, one position at a time, padding and activations spelled out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cockpit.problems import get

Array = NDArray[np.float64]
WEIGHTED = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().numpy()


def padded(images: Array, kernel: int, stride: int, value: float) -> Array:
    """What is missing for ceil(size / stride) windows, the smaller half first."""
    missing = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in images.shape[1:3]]
    halves = [(total // 2, total - total // 2) for total in missing]
    return np.pad(images, [(0, 0), *halves, (0, 0)], constant_values=value)


def windows(images: Array, kernel: int, stride: int) -> Array:
    """[N, rows, columns, kernel, kernel, C]."""
    starts = [range(0, size - kernel + 1, stride) for size in images.shape[1:3]]
    rows = [[images[:, i : i + kernel, j : j + kernel] for j in starts[1]] for i in starts[0]]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)


def conv(images: Array, layer: Any, stride: int = 1, same: bool = True) -> Array:
    weight = array(layer.weight)
    seen = windows(padded(images, weight.shape[2], stride, 0) if same else images, weight.shape[2], stride)
    outputs = np.einsum("nijhwc,ochw->nijo", seen, weight, optimize=True)
    return outputs if layer.bias is None else outputs + array(layer.bias)


def pool(images: Array, kernel: int, stride: int) -> Array:
    return windows(padded(images, kernel, stride, -np.inf), kernel, stride).max((3, 4))


def transposed(images: Array, layer: Any, stride: int) -> Array:
    """Every position adds a copy of the kernel; of kernel - stride rows too many, the smaller half is cut off first."""
    weight = array(layer.weight)
    kernel, (count, height, width, _) = weight.shape[2], images.shape
    full = np.zeros((count, (height - 1) * stride + kernel, (width - 1) * stride + kernel, weight.shape[1]))
    for i in range(height):
        for j in range(width):
            copy = np.einsum("ni,iohw->nhwo", images[:, i, j], weight)
            full[:, i * stride : i * stride + kernel, j * stride : j * stride + kernel] += copy
    first = (kernel - stride) // 2
    return full[:, first : first + height * stride, first : first + width * stride] + array(layer.bias)


def dense(inputs: Array, layer: Any) -> Array:
    return inputs @ array(layer.weight).T + array(layer.bias)


def norm(images: Array, layer: Any) -> Array:
    """With the statistics of the batch."""
    scaled = (images - images.mean((0, 1, 2))) / np.sqrt(images.var((0, 1, 2)) + 1e-5)
    return scaled * array(layer.weight) + array(layer.bias)


def relu(values: Array) -> Array:
    return values.clip(min=0)


def leaky(values: Array) -> Array:
    return np.where(values > 0, values, 0.3 * values)


def flat(images: Array) -> Array:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def layers(model: nn.Module) -> Iterator[nn.Module]:
    return (module for module in model.modules() if isinstance(module, WEIGHTED))


def build(name: str, *shape: int) -> tuple[Any, Tensor, Array]:
    """A model for evaluation whose biases and scales are not those of the start, and images."""
    generator = torch.Generator().manual_seed(0)
    model = get(name).model(0).eval().double()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    images = torch.rand(2, *shape, generator=generator).double()
    return model, images, images.permute(0, 2, 3, 1).numpy()


def same(found: Tensor, expected: Array) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-10, atol=1e-12)


def test_2c2d() -> None:
    model, images, hidden = build("fmnist_2c2d", 1, 28, 28)
    first, second, third, last = layers(model)
    hidden = pool(relu(conv(hidden, first)), 2, 2)
    hidden = pool(relu(conv(hidden, second)), 2, 2)
    same(model(images), dense(relu(dense(flat(hidden), third)), last))


def test_3c3d() -> None:
    model, images, hidden = build("cifar10_3c3d", 3, 32, 32)
    *convolutions, fourth, fifth, last = layers(model)
    for layer, same_size in zip(convolutions, (False, False, True), strict=True):
        hidden = pool(relu(conv(hidden, layer, same=same_size)), 3, 2)
    same(model(images), dense(relu(dense(relu(dense(flat(hidden), fourth)), fifth)), last))


def test_all_cnn_c_ends_with_relu_before_the_mean() -> None:
    model, images, hidden = build("cifar100_allcnnc", 3, 16, 16)
    for place, layer in enumerate(layers(model)):
        hidden = relu(conv(hidden, layer, stride=2 if place in (2, 5) else 1, same=place != 6))
    assert (hidden == 0).any()
    same(model(images), hidden.mean((1, 2)))


def test_wide_residual_network_in_training() -> None:
    model, images, hidden = build("svhn_wrn164", 3, 8, 8)
    start, *units, last_norm, _, _, _, head = model
    hidden = conv(hidden, start)
    for unit, stride in zip(units, (1, 1, 2, 1, 2, 1), strict=True):
        active = relu(norm(hidden, unit.activation[0]))
        shortcut = conv(active, unit.shortcut, stride) if hasattr(unit, "shortcut") else hidden
        middle = relu(norm(conv(active, unit.residual[0], stride), unit.residual[1]))
        hidden = shortcut + conv(middle, unit.residual[3])
    assert [hasattr(unit, "shortcut") for unit in units] == [True, False] * 3
    same(model.train()(images), dense(relu(norm(hidden, last_norm)).mean((1, 2)), head))


def test_variational_autoencoder() -> None:
    model, images, hidden = build("mnist_vae", 1, 28, 28)
    *encoder, mean, spread = list(layers(model))[:5]
    narrow, wide, *decoder, last = list(layers(model))[5:]
    for layer, stride in zip(encoder, (2, 2, 1), strict=True):
        hidden = leaky(conv(hidden, layer, stride))
    means, spreads = dense(flat(hidden), mean), 0.5 * dense(flat(hidden), spread)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        noise = torch.randn(2, 8, dtype=torch.double).numpy()
        torch.manual_seed(0)
        outputs = model(images)
    hidden = leaky(dense(leaky(dense(means + noise * np.exp(spreads), narrow)), wide)).reshape(2, 7, 7, 1)
    for layer, stride in zip(decoder, (2, 1, 1), strict=True):
        hidden = relu(transposed(hidden, layer, stride))
    for found, expected in zip(outputs[1:], (means, spreads), strict=True):
        same(found, expected)
    same(outputs[0].flatten(1), 1 / (1 + np.exp(-dense(flat(hidden), last))))


UNIFORM, TRUNCATED = 3**0.5, 2 / 0.8796256610342398  # largest weight by Glorot, in standard deviations


@pytest.mark.parametrize(
    ("name", "convolution", "linear", "bias"),
    [
        ("cifar10_3c3d", TRUNCATED, UNIFORM, 0.0),
        ("cifar100_3c3d", TRUNCATED, UNIFORM, 0.0),
        ("cifar100_allcnnc", TRUNCATED, None, 0.1),
        ("svhn_wrn164", UNIFORM, UNIFORM, 0.0),
        ("mnist_vae", UNIFORM, UNIFORM, 0.0),
    ],
)
def test_initial_weights_by_glorot(name: str, convolution: float, linear: float | None, bias: float) -> None:
    """Variance 2 / (fan in + fan out) of every layer, with the largest weight that the distribution allows."""
    for layer in layers(get(name).model(1)):
        assert isinstance(layer, WEIGHTED)
        weight = array(layer.weight)
        fans = (weight.shape[0] + weight.shape[1]) * weight[0, 0].size
        deviation = (2 / fans) ** 0.5
        most = linear if isinstance(layer, nn.Linear) else convolution
        assert most is not None
        assert np.abs(weight).max() <= deviation * most * (1 + 1e-6)
        assert np.abs(weight).max() > deviation * most * 0.97
        assert weight.std() == pytest.approx(deviation, rel=4 * weight.size**-0.5)
        assert layer.bias is None or array(layer.bias) == pytest.approx(bias)
