"""The diagonal of the Gauss-Newton matrix against dense Jacobians."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.engine.curvature.curved import by_name, check, curved, dense_newton
from tests.engine.curvature.nets import LOSSES, NETS, Apply, C, N, prepared
from torch import Tensor, nn

from cockpit.core.errors import Undefined
from cockpit.engine.curvature import gauss_newton
from cockpit.engine.curvature.gauss_newton import Memory


def expected(model: nn.Module, inputs: Tensor, loss: str, axis: int = 0) -> dict[str, Tensor]:
    given = curved(model, inputs, LOSSES[loss], axis)
    return by_name(dense_newton(given, LOSSES[loss]).diagonal(), given.parameters)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("loss", ["cross entropy", "both signs"])
def test_the_diagonal(name: str, loss: str) -> None:
    model, inputs = prepared(name)
    memory, given = Memory(), curved(model, inputs, LOSSES[loss])
    check(given.newton(memory).diagonal(), expected(model, inputs, loss))
    assert memory.structures.find(given.graph, "columns")  # not by autograd, column by column


@pytest.mark.parametrize("name", ["perceptron", "overlapping pools", "groups", "tied", "recurrent", "positions"])
@pytest.mark.parametrize("loss", ["sum", "weights", "binary", "squares", "own"])
def test_other_losses(name: str, loss: str) -> None:
    model, inputs = prepared(name)
    check(curved(model, inputs, LOSSES[loss]).newton().diagonal(), expected(model, inputs, loss))


@pytest.mark.parametrize("name", ["perceptron", "overlapping pools", "convolution", "positions", "tied"])
def test_single_precision(name: str) -> None:
    model, inputs = prepared(name)
    right = expected(model, inputs, "cross entropy")
    found = curved(model.float(), inputs.float(), LOSSES["cross entropy"]).newton().diagonal()
    assert all(value.dtype == torch.float32 for value in found.values())
    check(found, right, 1e-4)


@pytest.mark.parametrize("name", ["overlapping pools", "geometry", "groups", "positions", "tied", "attention"])
def test_little_memory_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauss_newton, "LEAST", {"cpu": 1})
    monkeypatch.setattr(gauss_newton, "SHARE", 0)
    model, inputs = prepared(name)
    check(curved(model, inputs, LOSSES["both signs"]).newton().diagonal(), expected(model, inputs, "both signs"))


def test_samples_that_are_not_first() -> None:
    """[T, N, C], flattened by the loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, C)).double()
    labels = torch.randint(C, (2 * N,))
    given = curved(model, torch.randn(2, N, 5).double(), lambda o: F.cross_entropy(o.view(-1, C), labels), axis=1)
    right = dense_newton(given, lambda o: F.cross_entropy(o.view(-1, C), labels)).diagonal()
    check(given.newton().diagonal(), by_name(right, given.parameters))


def test_two_outputs() -> None:
    """A classifier and a regression on one trunk: columns of both are sent together."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, C + 2)).double()
    labels = torch.randint(C, (N,))

    def loss_of(output: Tensor) -> Tensor:
        return F.cross_entropy(output[:, :C], labels) + F.mse_loss(output[:, C:], torch.ones(N, 2).double())

    given = curved(model, torch.randn(N, 5).double(), loss_of)
    check(given.newton().diagonal(), by_name(dense_newton(given, loss_of).diagonal(), given.parameters))


@pytest.mark.parametrize("ends", ["log softmax", "log sigmoid", "log of a softmax", "turned log softmax"])
def test_a_network_that_ends_in_what_belongs_to_the_loss(ends: str) -> None:
    """The loss is linear in its output, and without its end it is the ordinary one."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, C)).double()
    inputs, labels = torch.randn(N, 5).double(), torch.randint(C, (N,))
    end = {
        "log softmax": lambda z: z.log_softmax(1),
        "log sigmoid": F.logsigmoid,
        "log of a softmax": lambda z: z.softmax(1).log(),
        "turned log softmax": lambda z: z.log_softmax(1).mT.contiguous(),
    }[ends]

    def loss_of(output: Tensor) -> Tensor:
        return F.nll_loss(output.mT if ends.startswith("turned") else output, labels)

    whole = curved(Apply(lambda x, layers: end(layers(x)), body), inputs, loss_of, axis=int(ends.startswith("turned")))
    plain = curved(body, inputs, lambda z: loss_of(end(z)))
    right = by_name(dense_newton(plain, lambda z: loss_of(end(z))).diagonal(), plain.parameters)
    found = whole.newton().diagonal()
    check({name.removeprefix("layers.0."): value for name, value in found.items()}, right)
    assert all(float(value.sum()) > 1e-3 for value in found.values())


def test_log_probabilities_whose_squares_are_the_loss_are_an_output_like_any() -> None:
    torch.manual_seed(0)
    body = nn.Linear(5, C).double()
    given = curved(Apply(lambda x, layer: layer(x).log_softmax(1), body), torch.randn(N, 5).double(), LOSSES["squares"])
    check(given.newton().diagonal(), by_name(dense_newton(given, LOSSES["squares"]).diagonal(), given.parameters))


def test_a_hook_that_changes_gradients_is_noticed() -> None:
    """Only autograd knows of it: columns then go through autograd, one by one."""

    def hooked(x: Tensor, first: nn.Module, last: nn.Module) -> Tensor:
        inner = torch.relu(first(x))
        inner.register_hook(lambda grad: 3 * grad)
        return last(inner)

    torch.manual_seed(0)
    model = Apply(hooked, nn.Linear(5, 4), nn.Linear(4, C)).double()
    inputs, memory = torch.randn(N, 5).double(), Memory()
    right = expected(Apply(lambda x, a, b: b(torch.relu(a(x))), *model.layers), inputs, "cross entropy")
    given = curved(model, inputs, LOSSES["cross entropy"])
    found = given.newton(memory).diagonal()
    assert memory.structures.find(given.graph, "columns") is False
    for name, value in right.items():
        torch.testing.assert_close(found[name], value * (9 if name.startswith("layers.0") else 1))


@pytest.mark.parametrize("loss", LOSSES)
def test_batch_normalisation_couples_samples(loss: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, C)).double()
    inputs = torch.randn(N, 5).double()
    given = curved(model, inputs, LOSSES[loss])
    check(given.newton().diagonal(), by_name(dense_newton(given, LOSSES[loss]).diagonal(), given.parameters))
    with pytest.raises(Undefined, match="hutchinson"):
        given.newton().sampled(1, torch.Generator())


@pytest.mark.parametrize("loss", ["cross entropy", "weights", "binary", "squares"])
def test_the_estimate_is_right_on_average(loss: str) -> None:
    model, inputs = prepared("overlapping pools")
    newton = curved(model, inputs, LOSSES[loss]).newton()
    estimates = newton.sampled(300, torch.Generator().manual_seed(0))
    for name, exact in newton.diagonal().items():
        found = torch.stack([estimate[name].sum() for estimate in estimates])
        assert abs(float(found.mean() - exact.sum())) < 5 * float(found.std()) / 300**0.5 + 1e-12


def test_an_estimate_of_a_loss_that_is_not_convex_is_refused() -> None:
    model, inputs = prepared("perceptron")
    with pytest.raises(Undefined, match="not convex"):
        curved(model, inputs, LOSSES["both signs"]).newton().sampled(1, torch.Generator())


def test_an_estimate_takes_any_number_of_classes() -> None:
    """The exact one has as many columns as classes: it is refused, and the remedy works."""
    torch.manual_seed(0)
    model, labels = nn.Linear(5, 3000), torch.randint(3000, (N,))
    given = curved(model, torch.randn(N, 5), lambda o: F.cross_entropy(o, labels))
    with pytest.raises(Undefined, match="ggn_mc"):
        given.newton().diagonal()
    p = given.output.detach().softmax(1)
    right = float((p * (1 - p)).sum() / N)  # of the bias
    found = [float(one["bias"].sum()) for one in given.newton().sampled(20, torch.Generator().manual_seed(0))]
    assert sum(found) / 20 == pytest.approx(right, rel=0.05)
