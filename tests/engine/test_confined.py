"""Coordinates of the directions that a batch can move, against products and eigenvalues of the whole Hessian."""

from __future__ import annotations

import pytest
import torch
from tests.products import product_of
from torch import Tensor, nn

from cockpit.engine import confined, lanczos
from cockpit.engine.autograd.graph import Graph
from cockpit.engine.confined import Confined, ConfinedBasis
from cockpit.engine.double_backward import HessianProduct
from cockpit.engine.tangents import TangentProduct, chain_of


class Tied(nn.Module):
    """A weight that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(20, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(torch.relu(self.middle(torch.relu(self.first(x))))))


def chain(*layers: nn.Module, frozen: tuple[str, ...] = ()) -> nn.Module:
    model = nn.Sequential(*layers)
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    return model


def mlp(bias: bool = True, frozen: tuple[str, ...] = ()) -> nn.Module:
    layers = nn.Linear(20, 18, bias=bias), nn.ReLU(), nn.Linear(18, 16, bias=bias), nn.ReLU(), nn.Linear(16, 4)
    return chain(*layers, frozen=frozen)


NETS = {
    "mlp": (mlp, {"0.weight", "2.weight", "4.weight"}),
    "no bias": (lambda: mlp(bias=False), {"0.weight", "2.weight", "4.weight"}),
    "frozen first": (lambda: mlp(frozen=("0.weight", "0.bias")), {"2.weight", "4.weight"}),
    "frozen first weight": (lambda: mlp(frozen=("0.weight",)), {"2.weight", "4.weight"}),
    "frozen middle": (lambda: mlp(frozen=("2.weight",)), {"0.weight", "4.weight"}),
    "tied": (Tied, {"first.weight", "last.weight"}),
    "convolution": (
        lambda: chain(nn.Unflatten(1, (1, 5, 4)), nn.Conv2d(1, 6, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4)),
        {"4.weight"},
    ),
}
SAMPLES = 3


@pytest.fixture(autouse=True)
def _every_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "LARGE", 1)
    monkeypatch.setattr(confined, "GAIN", 0.0)


def whole_product(model: nn.Module, x: Tensor, y: Tensor) -> tuple[TangentProduct, HessianProduct]:
    loss, quick = product_of(model, x, y)
    return quick, HessianProduct([loss], [None], quick.parameters)


def case(name: str, samples: int = SAMPLES, dtype: torch.dtype = torch.float64) -> tuple[Confined, HessianProduct]:
    torch.manual_seed(0)
    make, expected = NETS[name]
    model = make().to(dtype)
    product, slow = whole_product(model, torch.randn(samples, 20, dtype=dtype), torch.arange(samples) % 4)
    layers = dict(confined._worthwhile(product))
    assert set(layers) == expected
    return Confined(product, layers), slow


def some(slow: HessianProduct) -> Tensor:
    like = next(iter(slow.parameters.values()))
    return torch.randn(sum(p.numel() for p in slow.parameters.values()), dtype=like.dtype)


@pytest.mark.parametrize("samples", [1, SAMPLES, 40])
@pytest.mark.parametrize("name", NETS)
def test_products_are_those_of_the_whole_hessian(name: str, samples: int) -> None:
    quick, slow = case(name, samples)
    vector = some(slow)
    torch.testing.assert_close(quick.widen(quick.flat(quick.narrow(vector))), slow.flat(vector), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NETS)
def test_coordinates_keep_lengths_and_leave_out_only_what_moves_nothing(name: str) -> None:
    quick, slow = case(name)
    vector, image = some(slow), slow.flat(some(slow))
    seen = quick.widen(quick.narrow(vector))
    assert float(quick.narrow(vector).norm()) == pytest.approx(float(seen.norm()))
    assert float(slow.flat(vector - seen).norm()) <= 1e-10 * float(vector.norm())
    torch.testing.assert_close(quick.widen(quick.narrow(image)), image)
    torch.testing.assert_close(quick.narrow(seen), quick.narrow(vector))
    assert len(quick.narrow(vector)) < len(vector)


@pytest.mark.parametrize("name", NETS)
def test_any_numbers_can_be_made_coordinates(name: str) -> None:
    quick, slow = case(name)
    found = quick.straighten(torch.randn_like(quick.narrow(some(slow))))
    assert float(quick.widen(found).norm()) == pytest.approx(float(found.norm()))
    torch.testing.assert_close(quick.narrow(quick.widen(found)), found)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NETS)
def test_the_largest_eigenvalue(name: str, dtype: torch.dtype) -> None:
    quick, slow = case(name, dtype=dtype)
    start = some(slow)
    dense = torch.stack([slow.flat(row) for row in torch.eye(len(start), dtype=dtype)]).double()
    values, vectors = torch.linalg.eigh((dense + dense.mT) / 2)
    found = lanczos.largest(ConfinedBasis(quick, start), torch.Generator().manual_seed(0))
    assert found.value == pytest.approx(float(values[-1]), rel=1e-5)
    assert found.vector.shape == start.shape
    assert abs(float(found.vector.double() @ vectors[:, -1])) > 0.5  # the largest weighs most in the next start


def test_where_all_eigenvalues_inside_are_negative_the_largest_is_zero() -> None:
    """Of -(sum of outputs)^2 the Hessian is negative but for the directions that move nothing."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(20, 4, bias=False)).double(), torch.randn(2, 20, dtype=torch.float64)
    output = model(x)
    loss = -(output**2).sum()
    parameters = dict(model.named_parameters())
    found = chain_of(Graph([loss.grad_fn]), output.grad_fn, parameters)
    assert found is not None
    basis = confined.basis(TangentProduct.of([loss], [None], found, parameters), torch.randn(80, dtype=torch.float64))
    assert isinstance(basis, ConfinedBasis)
    assert lanczos.largest(basis, torch.Generator()).value == 0


def test_inputs_that_are_zero_or_alike() -> None:
    torch.manual_seed(0)
    model = mlp(bias=False).double()
    for x in (torch.zeros(4, 20), torch.ones(4, 20), torch.randn(1, 20).expand(4, 20)):
        product, slow = whole_product(model, x.double(), torch.arange(4))
        vector, quick = some(slow), Confined(product, dict(confined._worthwhile(product)))
        found = quick.widen(quick.flat(quick.narrow(vector)))
        torch.testing.assert_close(found, slow.flat(vector), atol=1e-12, rtol=1e-9)


def test_what_is_not_finite_is_said() -> None:
    model = mlp()
    x = torch.randn(3, 20)
    x[1, 2] = float("nan")
    product, _ = whole_product(model, x, torch.arange(3))
    found = lanczos.largest(confined.basis(product, torch.randn(750)), torch.Generator())
    assert found.value != found.value


def test_small_or_crowded_layers_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "GAIN", 1.5)
    model = mlp()
    few, _ = whole_product(model, torch.randn(2, 20), torch.arange(2))
    assert set(dict(confined._worthwhile(few))) == {"0.weight", "2.weight"}
    many, _ = whole_product(model, torch.randn(30, 20), torch.arange(30) % 4)
    assert not dict(confined._worthwhile(many))
    monkeypatch.setattr(confined, "LARGE", 10_000)
    assert not dict(confined._worthwhile(few))
    assert type(confined.basis(few, torch.randn(750))) is lanczos.Basis
