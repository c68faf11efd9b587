"""Products with the Hessian, pushed forward and pulled back, against a dense Hessian."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cockpit import watch
from cockpit.engine import tangent_layers, tangent_pieces, tangent_pooled
from cockpit.engine.autograd.graph import Graph
from cockpit.engine.capture import loss_input
from cockpit.engine.double_backward import HessianProduct
from cockpit.engine.second_order import SecondOrder
from cockpit.engine.settings import Settings
from cockpit.engine.tangent_picked import follows_a_convolution
from cockpit.engine.tangent_pieces import Pieces
from cockpit.engine.tangent_pooled import Pooled
from cockpit.engine.tangents import TangentProduct, chain_of

N = 4
LABELS = torch.tensor([0, 2, 1, 1])


class Twice(nn.Module):
    """One layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.relu(self.layer(x)))[:, :3].reshape(N, 3) if self.training else x


class Tied(nn.Sequential):
    """Two layers, one weight."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
        self[2].weight = self[0].weight


def frozen(*places: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    for place in places:
        model[place].requires_grad_(False)
    return model


def picture(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Upsample(scale_factor=4), *layers, nn.Flatten(), nn.LazyLinear(3)
    )


CHAINS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(6, 3),
    "perceptron": lambda: nn.Sequential(
        nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)
    ),
    "first layer frozen": lambda: frozen(0),
    "middle layer frozen": lambda: frozen(2),
    "last layer frozen": lambda: frozen(4),
    "tied": Tied,
    "convolutions": lambda: picture(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(3, 4, 2, bias=False),
        nn.ReLU(),
    ),
    "geometry": lambda: picture(nn.Conv2d(1, 4, (3, 2), 2, 1), nn.ReLU(), nn.Conv2d(4, 6, 2, dilation=2, groups=2)),
    "transposed": lambda: picture(nn.Conv2d(1, 2, 3, 2), nn.ReLU(), nn.ConvTranspose2d(2, 3, 3, 2, output_padding=1)),
    "image of one row": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)
    ),
}
OTHERS: dict[str, Callable[[], nn.Module]] = {
    "tanh": lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)),
    "norm": lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 3)),
    "slice": Twice,
    "weight norm": lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 5)), nn.ReLU(), nn.Linear(5, 3)
    ),
}
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "cross entropy": lambda o: F.cross_entropy(o, LABELS),
    "weighted": lambda o: 3 * F.cross_entropy(o, LABELS, torch.tensor([0.5, 1, 2]).to(o), label_smoothing=0.1),
    "squares": lambda o: F.mse_loss(o, torch.ones_like(o)),
}


def given(make: Callable[[], nn.Module], loss_of: Callable[[Tensor], Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(0)
    model, inputs = make(), torch.randn(N, 6)
    model(inputs)
    model.double()
    return loss_of(model(inputs.double())), {n: p for n, p in model.named_parameters() if p.requires_grad}


def quick(loss: Tensor, parameters: dict[str, Tensor]) -> TangentProduct | None:
    graph = Graph([loss.grad_fn])
    top = loss_input(graph)
    chain = None if top is None else chain_of(graph, top.node, parameters)
    return None if chain is None else TangentProduct.of([loss], [None], chain, parameters)


def dense(loss: Tensor, parameters: dict[str, Tensor]) -> Tensor:
    """[D, D], row by row."""
    grads = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
    flat, rows = torch.cat([g.flatten() for g in grads]), []
    for entry in flat:
        row = torch.autograd.grad(
            entry, list(parameters.values()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        rows.append(torch.cat([g.flatten() for g in row]))
    return torch.stack(rows)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("apart", [set(), {"cpu"}], ids=["in_a_row", "begun_ahead"])
def test_products_with_a_chain(name: str, loss_name: str, apart: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangent_layers, "APART", apart)
    loss, parameters = given(CHAINS[name], LOSSES[loss_name])
    product = quick(loss, parameters)
    assert product is not None
    matrix, sizes = dense(loss, parameters), [p.numel() for p in parameters.values()]
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        vector = torch.randn(sum(sizes), generator=generator, dtype=torch.float64)
        parts = zip(parameters.items(), vector.split(sizes), strict=True)
        found = product({key: part.view_as(p) for (key, p), part in parts})
        assert [value.shape for value in found.values()] == [p.shape for p in parameters.values()]
        torch.testing.assert_close(torch.cat([value.flatten() for value in found.values()]), matrix @ vector)
    assert product.products == 2


def pooled() -> nn.Module:
    """Convolutions that max-pooling follows: below the first nothing moves, below the second something does."""
    pool = nn.MaxPool2d(2, 1)
    return picture(nn.Conv2d(1, 3, 3), nn.ReLU(), pool, nn.Conv2d(3, 6, 2, bias=False), pool, nn.ReLU())


FROZEN = [(), ("2.weight",), ("2.bias",), ("2.weight", "2.bias"), ("5.weight",)]


def pooled_case(frozen_parts: tuple[str, ...]) -> tuple[TangentProduct, Tensor, Tensor]:
    """The product, a vector, and what the product with it must be."""

    def partly() -> nn.Module:
        model = pooled()
        for name in frozen_parts:
            model.get_parameter(name).requires_grad_(False)
        return model

    loss, parameters = given(partly, LOSSES["cross entropy"])
    product = quick(loss, parameters)
    assert product is not None
    size = sum(p.numel() for p in parameters.values())
    vector = torch.randn(size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return product, vector, dense(loss, parameters) @ vector


@pytest.mark.parametrize("fits", [1, 3])
@pytest.mark.parametrize("frozen_parts", FROZEN)
def test_pieces_of_the_batch_make_the_same_product(
    fits: int, frozen_parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tangent_pieces.MOST, "cpu", fits * 3 * 6 * 10 * 8)  # so many entries of the first result
    product, vector, expected = pooled_case(frozen_parts)
    pieces = [layer for layer in product.chain if isinstance(layer, Pieces)]
    assert [len(layer._parts) for layer in pieces] == [N // fits + (N % fits > 0)] * len(pieces)
    assert pieces
    torch.testing.assert_close(product.flat(vector), expected)
    assert product.agrees(product.parts(vector))


@pytest.mark.parametrize("narrow", [0, 128])
@pytest.mark.parametrize("frozen_parts", FROZEN)
def test_channels_last_make_the_same_product(
    frozen_parts: tuple[str, ...], narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where a convolution and what max-pooling picks of it are one layer."""
    monkeypatch.setattr(tangent_pooled, "suits", follows_a_convolution)
    monkeypatch.setattr(tangent_pooled, "NARROW", narrow)
    product, vector, expected = pooled_case(frozen_parts)
    assert sum(isinstance(layer, Pooled) for layer in product.chain) == (1 if len(frozen_parts) == 2 else 2)
    torch.testing.assert_close(product.flat(vector), expected)
    assert product.agrees(product.parts(vector))


@pytest.mark.parametrize("name", OTHERS)
def test_other_networks_are_left_to_autograd(name: str) -> None:
    assert quick(*given(OTHERS[name], LOSSES["cross entropy"])) is None


def test_a_term_beside_the_network_is_left_to_autograd() -> None:
    loss, parameters = given(CHAINS["perceptron"], LOSSES["cross entropy"])
    assert quick(loss + sum(p.square().sum() for p in parameters.values()), parameters) is None


def test_half_precision_is_left_to_autograd() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).bfloat16()
    loss = F.cross_entropy(model(torch.randn(N, 6).bfloat16()), LABELS)
    assert quick(loss, dict(model.named_parameters())) is None


def chosen(model: nn.Module, inputs: Tensor) -> object:
    parameters = dict(model.named_parameters())
    loss = F.cross_entropy(model(inputs), LABELS)
    return SecondOrder([loss], [None], parameters, "not asked for", Settings(), 0, False)._product()


def test_a_hook_that_changes_gradients_is_left_to_autograd() -> None:
    class Hooked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x.register_hook(lambda grad: 2 * grad)
            return x

    torch.manual_seed(0)
    inputs, layers = torch.randn(N, 6), (nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    assert isinstance(chosen(nn.Sequential(*layers), inputs), TangentProduct)
    assert isinstance(chosen(nn.Sequential(layers[0], Hooked(), *layers[1:]), inputs), HessianProduct)


@pytest.mark.parametrize("name", ["perceptron", "convolutions", "tied"])
def test_the_eigenvalue_of_a_chain(name: str) -> None:
    torch.manual_seed(0)
    model, inputs = CHAINS[name](), torch.randn(3, N, 6)
    model(inputs[0])
    model.double()
    optimizer, loss_fn = torch.optim.SGD(model.parameters(), lr=0.05), nn.CrossEntropyLoss()
    expected = []
    with watch(model, optimizer, loss_fn, quantities=["HessMaxEV"], every=1) as pit:
        for batch in inputs.double():
            optimizer.zero_grad()
            with torch.random.fork_rng():
                twin = F.cross_entropy(model(batch), LABELS)
            matrix = dense(twin, dict(model.named_parameters()))
            expected.append(float(torch.linalg.eigvalsh(matrix)[-1]))
            loss_fn(model(batch), LABELS).backward()
            optimizer.step()
    found = [record.value for record in pit.history.series("HessMaxEV")]
    assert found == pytest.approx(expected, rel=1e-3)
