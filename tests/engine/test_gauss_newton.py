"""The exact diagonal of the Gauss-Newton matrix, and what arrives on the way, against dense Jacobians."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.engine.curved import curved, dense_diagonal
from torch import Tensor, nn

from cockpit.engine import column_pass
from cockpit.engine.autograd.graph import family
from cockpit.engine.scattered import Scattered, dense
from cockpit.engine.sending import Sender
from cockpit.engine.settings import Settings

N, C = 4, 3
LABELS = torch.tensor([0, 2, 1, 1])


class Apply(nn.Module):
    """Layers and a function of them."""

    def __init__(self, function: Callable[..., Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.layers)


class Doubled(torch.autograd.Function):
    """A user's own operation, which looks at numbers in its backward."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        return 2 * grad if float(grad.sum()) != 0.125 else grad


def conv(*layers: nn.Module, size: int = 7, channels: int = 2) -> tuple[nn.Module, Tensor]:
    """Layers on images, then classes."""
    torch.manual_seed(1)
    inputs = torch.randn(N, channels, size, size)
    width = nn.Sequential(*layers)(inputs).flatten(1).shape[1]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, C)), inputs


def pooled(pool: nn.Module, **options: int) -> tuple[nn.Module, Tensor]:
    return conv(nn.Conv2d(2, 4, 3, **options), nn.ReLU(), pool, nn.Conv2d(4, 3, 2), nn.ReLU(), size=9)


def attention(x: Tensor, queries: nn.Module, values: nn.Module, last: nn.Module) -> Tensor:
    weights = (queries(x) @ x.mT).softmax(-1)
    return last((weights @ values(x)).mean(1))


def vectors(*layers: nn.Module, shape: tuple[int, ...] = (N, 5)) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(1)
    return nn.Sequential(*layers), torch.randn(*shape)


def tied(x: Tensor, layer: nn.Module, last: nn.Module) -> Tensor:
    return last(torch.tanh(layer(torch.relu(layer(x)))))


NETS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "linear": lambda: vectors(nn.Linear(5, C)),
    "perceptron": lambda: vectors(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, C)),
    "layer norm": lambda: vectors(nn.Linear(5, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, C)),
    "positions": lambda: vectors(
        nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3), nn.Flatten(), nn.Linear(9, C), shape=(N, 3, 5)
    ),
    "attention": lambda: (
        Apply(attention, nn.Linear(5, 5), nn.Linear(5, 4, bias=False), nn.Linear(4, C)),
        vectors(shape=(N, 3, 5))[1],
    ),
    "tied": lambda: (Apply(tied, nn.Linear(5, 5), nn.Linear(5, C)), vectors()[1]),
    "residual": lambda: (
        Apply(lambda x, a, b: b(x + torch.relu(a(x)) + 0.5 * a(x)), nn.Linear(5, 5), nn.Linear(5, C)),
        vectors()[1],
    ),
    "own operation": lambda: (
        Apply(lambda x, a, b: b(Doubled.apply(a(x))), nn.Linear(5, 4), nn.Linear(4, C)),
        vectors()[1],
    ),
    "convolution": lambda: conv(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 1)),
    "geometry": lambda: conv(nn.Conv2d(2, 4, (3, 2), (2, 1), (1, 2), (1, 2)), nn.ReLU()),
    "groups": lambda: conv(nn.Conv2d(4, 6, 3, groups=2, padding=1), nn.ReLU(), channels=4),
    "transposed": lambda: conv(nn.ConvTranspose2d(2, 3, 3, stride=2), nn.ReLU(), size=3),
    "overlapping pools": lambda: pooled(nn.MaxPool2d(3, 2, ceil_mode=True), padding=1),
    "pools": lambda: pooled(nn.MaxPool2d(2)),
    "padded pools": lambda: pooled(nn.MaxPool2d(3, 2, padding=1), stride=2),
    "pool without kink": lambda: conv(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), nn.Conv2d(4, 3, 2)),
    "pool before kink": lambda: conv(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(4, 3, 2)),
    "pool of groups": lambda: conv(nn.Conv2d(4, 6, 3, groups=2), nn.ReLU(), nn.MaxPool2d(2), channels=4),
    "pool of a norm": lambda: conv(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2)),
    "average": lambda: conv(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 3, 2)),
    "two pools at once": lambda: conv(
        nn.Conv2d(2, 4, 3), Apply(lambda x: F.max_pool2d(x, 2) + F.max_pool2d(x, 3, 2)[..., :2, :2])
    ),
}
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "cross entropy": lambda o: F.cross_entropy(o, LABELS),
    "both signs": lambda o: (F.cross_entropy(o, LABELS, reduction="none") * torch.tensor([1.0, -2, 3, -1])).sum(),
    "squares": lambda o: F.mse_loss(o, torch.zeros_like(o)),
    "own": lambda o: o.exp().sum() - 2 * o.square().sum(),
}


def prepared(name: str) -> tuple[nn.Module, Tensor]:
    model, inputs = NETS[name]()
    torch.manual_seed(2)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.double(), inputs.double()


def check(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-9) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        least = max(tolerance * float(value.abs().max()), 1e-14)
        torch.testing.assert_close(found[name].double(), value, rtol=tolerance, atol=least)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("loss", ["cross entropy", "both signs"])
def test_the_diagonal(name: str, loss: str) -> None:
    model, inputs = prepared(name)
    settings = Settings()
    given = curved(model, inputs, LOSSES[loss])
    check(given.newton_with(settings).diagonal(), dense_diagonal(model, inputs, LOSSES[loss]))
    assert settings.trusted(("columns", given.graph.signature), lambda: False)  # not by autograd, column by column


@pytest.mark.parametrize("name", ["perceptron", "overlapping pools", "groups", "tied", "own operation", "positions"])
@pytest.mark.parametrize("loss", ["squares", "own"])
def test_other_losses(name: str, loss: str) -> None:
    model, inputs = prepared(name)
    check(curved(model, inputs, LOSSES[loss]).newton.diagonal(), dense_diagonal(model, inputs, LOSSES[loss]))


@pytest.mark.parametrize("name", ["perceptron", "overlapping pools", "pools", "convolution", "positions"])
def test_single_precision(name: str) -> None:
    model, inputs = prepared(name)
    expected = dense_diagonal(model, inputs, LOSSES["cross entropy"])
    found = curved(model.float(), inputs.float(), LOSSES["cross entropy"]).newton.diagonal()
    assert all(value.dtype == torch.float32 for value in found.values())
    check(found, expected, 1e-4)


@pytest.mark.parametrize("name", ["overlapping pools", "geometry", "positions", "tied", "attention"])
def test_little_memory_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = prepared(name)
    expected = curved(model, inputs, LOSSES["both signs"]).newton.diagonal()
    monkeypatch.setattr(column_pass, "LEAST", 1)
    monkeypatch.setitem(column_pass.SHARE, "cpu", 1e-6)
    check(curved(model, inputs, LOSSES["both signs"]).newton.diagonal(), expected, 1e-12)


def test_a_hook_that_changes_gradients_is_noticed() -> None:
    """Only autograd knows of it: columns then go through autograd, one by one."""

    def hooked(x: Tensor, first: nn.Module, last: nn.Module) -> Tensor:
        inner = torch.relu(first(x))
        inner.register_hook(lambda grad: 3 * grad)
        return last(inner)

    torch.manual_seed(0)
    model = Apply(hooked, nn.Linear(5, 4), nn.Linear(4, C)).double()
    inputs, settings = torch.randn(N, 5).double(), Settings()
    plain = Apply(lambda x, a, b: b(torch.relu(a(x))), *model.layers)
    expected = dense_diagonal(plain, inputs, LOSSES["cross entropy"])
    given = curved(model, inputs, LOSSES["cross entropy"])
    found = given.newton_with(settings).diagonal()
    assert not settings.trusted(("columns", given.graph.signature), lambda: True)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value * (9 if name.startswith("layers.0") else 1))


def test_operations_without_a_rule_for_many_columns_are_remembered() -> None:
    model, inputs = prepared("own operation")
    settings = Settings()
    curved(model, inputs, LOSSES["cross entropy"]).newton_with(settings).diagonal()
    assert not settings.looped  # a user's own operation is never tried

    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x.register_hook(lambda grad: grad * float(grad.abs().sum() >= 0))
            return x.sin()

    model = nn.Sequential(nn.Linear(5, 4), Looks(), nn.Linear(4, C)).double()
    found = curved(model, inputs, LOSSES["cross entropy"]).newton_with(settings).diagonal()
    assert settings.looped
    check(found, dense_diagonal(model, inputs, LOSSES["cross entropy"]))


def test_columns_arrive_without_their_zeros_under_max_pooling() -> None:
    model, inputs = prepared("overlapping pools")
    given = curved(model, inputs, LOSSES["cross entropy"])
    nodes = [node for node in given.graph.nodes if family(node) == "ConvolutionBackward"]
    top = given.source.node, given.source.output
    seeds = torch.randn(2, N, C).double()
    with torch.no_grad():
        arrived = {node: grads[0] for node, grads in Sender([top], nodes, set())([seeds], 2**20)}
    first = arrived[nodes[-1]]
    assert isinstance(first, Scattered)
    assert isinstance(arrived[nodes[0]], Tensor)
    for node, grad in arrived.items():
        expected = [
            torch.autograd.grad(given.output, [torch.autograd.graph.GradientEdge(node, 0)], seed, retain_graph=True)[0]
            for seed in seeds
        ]
        torch.testing.assert_close(dense(grad), torch.stack(expected))
        torch.testing.assert_close(dense(grad, 1, 2)[0], expected[1])
    torch.testing.assert_close(first.dense(samples=slice(1, 3)), first.dense()[:, 1:3])


def test_the_estimate_is_right_on_average() -> None:
    model, inputs = prepared("overlapping pools")
    newton = curved(model, inputs, LOSSES["cross entropy"]).newton
    generator = torch.Generator().manual_seed(0)
    estimates = newton.sampled(300, generator)
    for name, exact in newton.diagonal().items():
        found = torch.stack([estimate[name].sum() for estimate in estimates])
        assert abs(float(found.mean() - exact.sum())) < 5 * float(found.std()) / 300**0.5 + 1e-12


def test_batch_normalisation_couples_samples() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, C)).double()
    inputs = torch.randn(N, 5).double()
    for loss in LOSSES.values():
        check(curved(model, inputs, loss).newton.diagonal(), dense_diagonal(model, inputs, loss))
