"""What max-pooling picks, and the way back: by torch and by kernels, against torch's own max-pooling."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.engine.triton_here import DEVICE, its_own_words, needs_kernels
from torch import Tensor, nn

from cockpit.engine import filling, sending
from cockpit.engine.autograd.graph import Graph, family
from cockpit.engine.conv_kernels import nearest
from cockpit.engine.filling import fill
from cockpit.engine.picking import KernelPicking, Picking, picking
from cockpit.engine.scattered import Scattered
from cockpit.engine.sending import Sender
from cockpit.engine.windows import Windows

pytestmark = its_own_words
POOLS: dict[str, dict[str, Any]] = {
    "quarters": {"kernel_size": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    "padded": {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)},
    "spread": {"kernel_size": 2, "stride": 1, "dilation": (2, 3)},
    "apart": {"kernel_size": 2, "stride": 3},
}
WAYS = ["torch", pytest.param("kernel", marks=needs_kernels)]


def last(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1).reshape(-1)


def made(name: str, way: str, filtered: bool) -> tuple[Picking, Tensor, Tensor, Tensor]:
    """Images, what pooling takes of them, and which of it is kept."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(3, 5, 9, 10, generator=generator).to(DEVICE).requires_grad_()
    pooled, index = F.max_pool2d(images, return_indices=True, **POOLS[name])
    kept = torch.rand(pooled.shape, generator=generator).to(DEVICE) > (0.5 if filtered else -1)
    places = Scattered.of(index[None], index, tuple(images.shape))
    if filtered:
        places = places.where_kept(kept.flatten(2))
    found = Picking(places) if way == "torch" else KernelPicking(places, pooled.grad_fn)
    return found, images, pooled, kept


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("way", WAYS)
def test_there_and_back(way: str, name: str, filtered: bool) -> None:
    found, images, pooled, kept = made(name, way, filtered)
    zero, bias = pooled.new_zeros(()), torch.arange(5.0, device=DEVICE)
    assert len(found) == pooled.numel()
    assert torch.equal(found.pick([last(images.detach()).clone()], None), last(torch.where(kept, pooled, zero)))
    both = [last(images.detach()), last(torch.ones_like(images))]
    expected = last(torch.where(kept, pooled + 1 + bias.view(-1, 1, 1), zero))
    torch.testing.assert_close(found.pick(both, bias), expected)
    assert torch.equal(found.kept(last(pooled)), last(torch.where(kept, pooled, zero)))
    grad = torch.randn_like(pooled)
    back = torch.autograd.grad(pooled, images, torch.where(kept, grad, zero))[0]
    torch.testing.assert_close(found.spread(last(grad)), last(back))


@needs_kernels
def test_kernels_are_taken_for_single_precision() -> None:
    images = torch.randn(1, 1, 4, 4, device=DEVICE, requires_grad=True)
    pooled, index = F.max_pool2d(images, 2, return_indices=True)
    places = Scattered.of(index[None], index, tuple(images.shape))
    assert type(picking(places, pooled.grad_fn, images)) is KernelPicking
    assert type(picking(places, pooled.grad_fn, images.double())) is Picking


def columns_of(name: str, count: int) -> Scattered:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(3, 5, 9, 10, generator=generator).to(DEVICE).requires_grad_()
    pooled, index = F.max_pool2d(images, return_indices=True, **POOLS[name])
    grad = torch.randn(count, *pooled.shape, generator=generator).to(DEVICE)
    windows = Windows.of_pooling(pooled.grad_fn)
    return Scattered.of(grad, index, tuple(images.shape), windows).where_positive(images.detach())


@needs_kernels
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("name", POOLS)
def test_zeros_are_filled_in(monkeypatch: pytest.MonkeyPatch, name: str, count: int, rounded: bool) -> None:
    monkeypatch.setattr(filling, "rounds", lambda: True)  # of what convolutions read
    grad = columns_of(name, count)
    expected = torch.zeros(count, *grad.shape, device=DEVICE, dtype=torch.float64).flatten(3)
    expected = expected.scatter_add(3, grad.index.expand(grad.value.shape), grad.values().double())
    expected = expected.view(count, *grad.shape)
    fill(grad, 2**30, rounded)
    (whole,) = grad.whole
    if rounded:
        assert torch.equal(whole, nearest(whole))
        torch.testing.assert_close(whole.double(), expected, rtol=2.0**-11, atol=1e-6)
    else:
        torch.testing.assert_close(whole.double(), expected, rtol=1e-6, atol=1e-6)
    assert grad.dense(slice(0, 1), slice(1, 3)).data_ptr() == whole[:1, 1:].data_ptr()


@needs_kernels
def test_zeros_are_not_filled_in_where_there_is_no_room() -> None:
    grad = columns_of("quarters", 2)
    fill(grad, 2 * 3 * 5 * 9 * 10 * 4 - 1, False)
    assert not grad.whole
    double = Scattered.of(grad.value.double(), grad.index, grad.shape, grad.windows)
    fill(double, 2**30, False)
    assert not double.whole


@pytest.mark.parametrize("normalised", [False, True])
def test_only_what_convolutions_read_is_rounded(monkeypatch: pytest.MonkeyPatch, normalised: bool) -> None:
    """Not what a normalisation between a convolution and max-pooling is sent."""
    asked: list[bool] = []
    monkeypatch.setattr(sending, "fill", lambda grad, room, convolved: asked.append(convolved))
    between = nn.BatchNorm2d(3).eval() if normalised else nn.Identity()
    net = nn.Sequential(nn.Conv2d(2, 2, 1), nn.Conv2d(2, 3, 3), between, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    outputs = net(torch.randn(4, 2, 6, 6))
    graph = Graph([outputs.grad_fn])
    wanted = [node for node in graph.nodes if family(node) in ("ConvolutionBackward", "NativeBatchNormBackward")]
    list(Sender([(outputs.grad_fn, 0)], wanted, set())([torch.randn(5, *outputs.shape)], 2**30))
    assert asked == [not normalised]
