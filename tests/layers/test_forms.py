"""Formed per-sample gradients against one backward pass of each sample in double precision."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cockpit.layers.forms import (
    AnyForm,
    Convolved,
    Dense,
    Factored,
    Indexed,
    Scratch,
    Summed,
    chunks,
    combine,
    joined,
    scale,
    widened,
)

N = 5


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def factored(positions: int = 3, groups: int = 1) -> Factored:
    return Factored((groups * 3, 4), draw(N, groups, positions, 3), draw(N, groups, positions, 4))


def indexed() -> Indexed:
    return Indexed((6, 2), N, torch.arange(N).repeat(3), torch.tensor([0, 1, 2, 0, 5] * 3), draw(3 * N, 2))


# channels, outputs, kernel, size, then the options of a convolution
CONVOLUTIONS: dict[str, tuple[int, int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": (3, 4, (3, 3), (6, 5), {}),
    "padded": (3, 4, (3, 2), (6, 5), {"padding": (1, 2)}),
    "strided": (2, 4, (3, 3), (8, 9), {"stride": (2, 3), "padding": (1, 1)}),
    "dilated": (2, 3, (3, 2), (9, 7), {"dilation": (2, 3)}),
    "grouped": (4, 6, (2, 2), (5, 5), {"groups": 2, "padding": (1, 1)}),
    "depthwise": (4, 4, (3, 3), (5, 5), {"groups": 4}),
    "pointwise": (3, 4, (1, 1), (4, 5), {}),
    "pointwise_grouped": (4, 4, (1, 1), (4, 5), {"groups": 2}),
    "pointwise_strided": (3, 4, (1, 1), (5, 5), {"stride": (2, 2)}),
    "pointwise_padded": (3, 4, (1, 1), (3, 3), {"padding": (1, 1)}),
    "line": (3, 2, (4,), (11,), {"stride": (2,), "padding": (1,), "dilation": (2,)}),
    "volume": (2, 3, (2, 2, 3), (4, 3, 5), {"stride": (1, 2, 1), "padding": (0, 1, 1)}),
    "everything": (4, 6, (3, 2), (11, 9), {"stride": (3, 2), "padding": (2, 1), "dilation": (2, 3), "groups": 2}),
    "many_channels": (20, 3, (3, 3), (6, 6), {"padding": (1, 1)}),
}


def convolution(name: str, images: int = 1) -> tuple[Convolved, Tensor]:
    """A form, and g_n [N, *shape] from autograd."""
    channels, outputs, kernel, size, options = CONVOLUTIONS[name]
    groups, axes = options.get("groups", 1), len(kernel)
    settings = {
        key: options.get(key, (default,) * axes) for key, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    }
    convolve = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    weight = draw(outputs, channels // groups, *kernel).requires_grad_()
    signal = draw(N, images, channels, *size)
    out = convolve(signal.flatten(0, 1), weight, groups=groups, **settings).unflatten(0, (N, images))
    response = draw(*out.shape)
    grads = [torch.autograd.grad((out[n] * response[n]).sum(), weight, retain_graph=True)[0] for n in range(N)]
    form = Convolved(tuple(weight.shape), signal, response, groups, *settings.values())
    return form, torch.stack(grads)


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("images", [1, 3])
def test_convolutions(name: str, images: int) -> None:
    form, expected = convolution(name, images)
    torch.testing.assert_close(form.form(0, N), expected)
    torch.testing.assert_close(scale(form, -3.7).form(1, 4), -3.7 * expected[1:4])


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_any_memory_format(layout: torch.memory_format) -> None:
    form, expected = convolution("padded")
    turned = replace(
        form,
        signal=form.signal[:, 0].to(memory_format=layout)[:, None],
        response=form.response[:, 0].to(memory_format=layout)[:, None],
    )
    torch.testing.assert_close(turned.form(0, N), expected)


@pytest.mark.parametrize("output_padding", [0, 1, 2])
def test_transposed_convolution_with_a_longer_output(output_padding: int) -> None:
    """Input and output gradient change places; the output may be longer than an ordinary convolution explains."""
    weight = draw(3, 2, 3, 3).requires_grad_()
    inputs = draw(N, 3, 4, 4)
    out = F.conv_transpose2d(inputs, weight, stride=2, dilation=3, output_padding=output_padding)
    grad = draw(*out.shape)
    form = Convolved(tuple(weight.shape), grad[:, None], inputs[:, None], 1, (2, 2), (0, 0), (3, 3))
    expected = [torch.autograd.grad((out[n] * grad[n]).sum(), weight, retain_graph=True)[0] for n in range(N)]
    torch.testing.assert_close(form.form(0, N), torch.stack(expected))


@pytest.mark.parametrize("positions", [1, 4])
@pytest.mark.parametrize("groups", [1, 3])
def test_factored(positions: int, groups: int) -> None:
    form = factored(positions, groups)
    expected = torch.einsum("ngto,ngti->ngoi", form.row, form.col).reshape(N, *form.shape)
    torch.testing.assert_close(form.form(0, N), expected)
    torch.testing.assert_close(scale(form, 0.3).form(2, 4), 0.3 * expected[2:4])


@pytest.mark.parametrize("name", ["padded", "everything", "pointwise"])
@pytest.mark.parametrize("limit", [1, 400, 1000, 10**9])
def test_chunks_use_their_memory_again(name: str, limit: int) -> None:
    form, expected = convolution(name)
    found = [(begin, g.clone()) for begin, g in chunks(form, limit)]
    assert found[0][0] == 0
    torch.testing.assert_close(torch.cat([g for _, g in found]), expected.reshape(N, -1))
    addresses = {g.data_ptr() for _, g in chunks(form, limit)}
    assert len(addresses) == 1


def test_scratch_gives_less_of_what_it_has() -> None:
    scratch, like = Scratch(), draw(1)
    first = scratch.take("a", (4, 3), like).fill_(1)
    assert scratch.take("a", (2, 3), like).data_ptr() == first.data_ptr()
    assert scratch.take("b", (4, 3), like).data_ptr() != first.data_ptr()
    assert scratch.take("a", (5, 3), like).shape == (5, 3)
    assert scratch.take("half", (2,), like.half()).dtype == torch.float32


def test_memory_is_shared_by_layers_of_other_shapes_and_precisions() -> None:
    scratch, single = Scratch(), torch.zeros(1)
    margins = scratch.take("padded", (2, 3, 4), single, zeros=True)
    margins[:, 1:2, 1:3] = 1
    assert not scratch.take("padded", (2, 6, 2), single, zeros=True).any()
    assert scratch.take("padded", (1, 3, 4), single, zeros=True).data_ptr() == margins.data_ptr()
    first = scratch.take("formed", (6, 5), single)
    assert scratch.take("formed", (3, 7), single).data_ptr() == first.data_ptr()
    assert scratch.take("formed", (6, 5), single.double()).dtype is torch.float64


FORMS = {
    "outer": lambda: factored(1),
    "factored": factored,
    "grouped": lambda: factored(2, 2),
    "convolved": lambda: convolution("everything")[0],
    "indexed": indexed,
    "dense": lambda: Dense(draw(N, 6, 2)),
    "summed": lambda: Summed((indexed(), Dense(draw(N, 6, 2)))),
}


def tensors(form: AnyForm) -> list[Tensor]:
    parts = form.parts if isinstance(form, Summed) else (form,)
    values = [getattr(part, field.name) for part in parts for field in fields(part)]
    return [value for value in values if isinstance(value, Tensor)]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("factor", [1.0, 128.0, 3.7, -0.5, 1e-3])
def test_scale(name: str, factor: float) -> None:
    form = FORMS[name]()
    expected = factor * form.form(0, N)
    torch.testing.assert_close(scale(form, factor).form(0, N), expected)
    torch.testing.assert_close(scale(scale(form, 2 * factor), 0.5).form(0, N), expected)


@pytest.mark.parametrize("name", ["outer", "factored", "convolved"])
def test_scale_does_not_touch_the_data(name: str) -> None:
    form = FORMS[name]()
    scaled = scale(form, 128.0)
    assert [t.data_ptr() for t in tensors(scaled)] == [t.data_ptr() for t in tensors(form)]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened_before_anything_is_added(name: str, dtype: torch.dtype) -> None:
    def halved(form: Any) -> Any:
        if isinstance(form, Summed):
            return Summed(tuple(halved(part) for part in form.parts))
        named = {field.name: getattr(form, field.name) for field in fields(form)}
        return replace(
            form, **{k: v.to(dtype) for k, v in named.items() if isinstance(v, Tensor) and v.is_floating_point()}
        )

    form = halved(FORMS[name]())
    found = scale(form, 128.0)
    assert found.dtype == torch.float32
    expected = 128 * _double(widened(form)).form(0, N)
    assert found.form(0, N).dtype == torch.float32
    torch.testing.assert_close(found.form(0, N).double(), expected, rtol=1e-5, atol=1e-4)
    assert {t.dtype for t in tensors(scale(form, 1.0)) if t.is_floating_point()} == {torch.float32}


def _double(form: Any) -> Any:
    if isinstance(form, Summed):
        return Summed(tuple(_double(part) for part in form.parts))
    named = {field.name: getattr(form, field.name) for field in fields(form)}
    return replace(form, **{k: v.double() for k, v in named.items() if isinstance(v, Tensor) and v.is_floating_point()})


def test_uses_of_unlike_scale_are_summed() -> None:
    one, other = factored(1), factored(2)
    assert isinstance(combine([one, other]), Factored)
    scaled = scale(one, 2.0)
    assert isinstance(scaled, Factored)
    both = combine([scaled, other])
    torch.testing.assert_close(both.form(0, N), 2 * one.form(0, N) + other.form(0, N))
    same = joined(scale(one, 3.0), scale(other, 3.0))
    assert isinstance(same, Factored)
    torch.testing.assert_close(same.form(0, N), 3 * (one.form(0, N) + other.form(0, N)))
