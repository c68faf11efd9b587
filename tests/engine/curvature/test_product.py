"""Products with the Hessian against a dense one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.engine.curvature.curved import Curved, by_name, curved, dense_hessian
from tests.engine.curvature.nets import LABELS, LOSSES, NETS, Apply, C, N, prepared
from torch import Tensor, nn

from cockpit.core.errors import Undefined
from cockpit.engine.curvature.product import hessian_diagonal, hutchinson


def product_of_units(given: Curved) -> Tensor:
    """[D, D]."""
    size = sum(p.numel() for p in given.parameters.values())
    like = next(iter(given.parameters.values()))
    product = given.product
    return torch.stack([product.flat(unit) for unit in torch.eye(size, dtype=like.dtype)])


@pytest.mark.parametrize("name", [*NETS, "batch norm"])
@pytest.mark.parametrize("loss", ["cross entropy", "own"])
def test_products_are_those_of_the_dense_matrix(name: str, loss: str) -> None:
    if name == "batch norm":
        torch.manual_seed(0)
        layers = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, C)
        model, inputs = nn.Sequential(*layers).double(), torch.randn(N, 5).double()
    else:
        model, inputs = prepared(name)
    given = curved(model, inputs, LOSSES[loss])
    dense, product = dense_hessian(given), given.product
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        vector = torch.randn(len(dense), generator=generator, dtype=torch.float64)
        least = 1e-9 * float(dense.abs().max())
        torch.testing.assert_close(product.flat(vector), dense @ vector, rtol=1e-9, atol=least)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_diagonal_and_its_estimates(loss: str) -> None:
    model, inputs = prepared("perceptron")
    given = curved(model, inputs, LOSSES[loss])
    right = by_name(dense_hessian(given).diagonal(), given.parameters)
    for name, value in hessian_diagonal(given.product).items():
        torch.testing.assert_close(value, right[name])
    estimates = hutchinson(given.product, 400, torch.Generator().manual_seed(0))
    for name, value in right.items():
        found = torch.stack([estimate[name].sum() for estimate in estimates])
        assert abs(float(found.mean() - value.sum())) < 5 * float(found.std()) / 20 + 1e-12


def squares_and_sum(log_p: Tensor) -> Tensor:
    return F.mse_loss(log_p, torch.zeros_like(log_p)) - log_p[:, 0].mean()


TERMS = {
    "penalty": lambda o, w: F.cross_entropy(o, LABELS) + 0.1 * w.pow(4).sum(),
    "two heads": lambda o, w: F.cross_entropy(o[:, :2], LABELS % 2) + F.mse_loss(o[:, 2], o.new_ones(N)),
    "focal": lambda o, w: (1 - F.cross_entropy(o, LABELS, reduction="none").neg().exp()).square().sum(),
    "squares of log p": lambda o, w: squares_and_sum(o.log_softmax(1)),
    "moving target": lambda o, w: F.mse_loss(o, o.square()),
    "two of one": lambda o, w: F.mse_loss(o, o.new_zeros(N, C)) + 3 * F.smooth_l1_loss(o, o.new_ones(N, C)),
}


@pytest.mark.parametrize("name", TERMS)
def test_losses_of_several_terms(name: str) -> None:
    """Closed forms are used only where all of the network lies below them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, C)).double()
    given = curved(model, torch.randn(N, 5).double(), lambda o: TERMS[name](o, model[0].weight))
    assert bool(given.loss.parts(given.parameters)) == (name == "two heads")
    torch.testing.assert_close(product_of_units(given), dense_hessian(given))


def test_a_hook_on_the_output_is_obeyed() -> None:
    """No graph shows it: what the closed form says is compared with what autograd sends."""

    def hooked(x: Tensor, layer: nn.Module) -> Tensor:
        output: Tensor = layer(x)
        output.register_hook(lambda grad: 3 * grad)
        return output

    torch.manual_seed(0)
    model, inputs = Apply(hooked, nn.Linear(5, C)).double(), torch.randn(N, 5).double()
    given = curved(model, inputs, LOSSES["cross entropy"])
    torch.testing.assert_close(product_of_units(given), dense_hessian(given))


@pytest.mark.parametrize("kind", ["softmax", "binary"])
@pytest.mark.parametrize("sure", [8.0, 14.0, 20.0, 28.0])
def test_a_saturated_loss_keeps_its_digits(kind: str, sure: float) -> None:
    """In single precision p (1 - p) is a difference of equal numbers, and so is autograd's second derivative."""
    torch.manual_seed(0)
    inputs, labels = 30 * torch.rand(N, 5), torch.tensor([0, 1, 2, 0])

    def loss_of(output: Tensor) -> Tensor:
        logits = output + sure * F.one_hot(labels, C).to(output)
        if kind == "softmax":
            return F.cross_entropy(logits, labels)
        return F.binary_cross_entropy_with_logits(sure + output[:, 0], output.new_ones(N))

    model = nn.Linear(5, C)
    nn.init.normal_(model.weight, std=0.01)
    narrow = curved(model, inputs, loss_of)
    wide = curved(nn.Linear(5, C).double(), inputs.double(), loss_of)
    with torch.no_grad():
        for name, p in wide.parameters.items():
            p.copy_(narrow.parameters[name])
    torch.set_default_dtype(torch.float64)
    try:
        right = _exact(narrow, inputs.double(), loss_of, kind, sure, labels)
    finally:
        torch.set_default_dtype(torch.float32)
    found = product_of_units(narrow).double()
    torch.testing.assert_close(found, right, rtol=2e-3, atol=1e-4 * float(right.abs().max()))


def _exact(given: Curved, inputs: Tensor, loss_of: object, kind: str, sure: float, labels: Tensor) -> Tensor:
    """J^T H J of a linear layer, with 1 - p summed from the others."""
    weight, bias = (p.detach().double() for p in given.parameters.values())
    z = inputs @ weight.mT + bias
    total = torch.zeros(len(weight.flatten()) + len(bias), len(weight.flatten()) + len(bias))
    for n in range(N):
        if kind == "softmax":
            p = (z[n] + sure * F.one_hot(labels[n], C)).softmax(0)
            others = torch.stack([p[[d for d in range(C) if d != c]].sum() for c in range(C)])
            block = -torch.outer(p, p)
            block += torch.diag(p * others - block.diagonal())
        else:
            block = torch.zeros(C, C)
            block[0, 0] = torch.sigmoid(sure + z[n, 0]) * torch.sigmoid(-sure - z[n, 0])
        jacobian = torch.cat([torch.kron(torch.eye(C), inputs[n][None]), torch.eye(C)], 1)
        total += jacobian.mT @ block @ jacobian / N
    return total


def test_a_loss_without_a_digit_of_curvature_is_said() -> None:
    model = nn.Linear(2, C)
    labels = torch.tensor([0, 1, 2, 0])
    given = curved(model, torch.randn(N, 2), lambda o: F.cross_entropy(o + 200 * F.one_hot(labels, C), labels))
    with pytest.raises(Undefined, match="saturated"):
        _ = given.product


def test_too_many_parameters_for_the_exact_diagonal() -> None:
    model = nn.Linear(200, 200)
    with pytest.raises(Undefined, match="hutchinson"):
        hessian_diagonal(curved(model, torch.randn(N, 200), LOSSES["squares"]).product)


def test_what_cannot_be_differentiated_twice_is_said() -> None:
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.tanh()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: object, grad: Tensor) -> Tensor:
            return grad * 2

    model = Apply(lambda x, a, b: b(Once.apply(a(x))), nn.Linear(5, 4), nn.Linear(4, C))
    with pytest.raises(Undefined, match="differentiated twice"):
        curved(model, torch.randn(N, 5), LOSSES["squares"]).product.flat(torch.ones(24 + 15))
