"""Samples are found wherever they are: the same numbers from every arrangement of the same batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cockpit import watch
from cockpit.core.record import Record


class Language(nn.Module):
    """A small language model, batch first or time first, with a flattened output or not."""

    def __init__(self, time_first: bool, flat: bool) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(11, 6), nn.LSTM(6, 5, batch_first=not time_first)
        self.head, self.flat = nn.Linear(5, 11), flat

    def forward(self, words: Tensor) -> Tensor:
        logits = self.head(self.body(self.words(words))[0])
        return logits.reshape(-1, 11) if self.flat else logits


def measured(samples: int, length: int, time_first: bool, flat: bool) -> dict[str, object]:
    torch.manual_seed(0)
    model, loss_fn = Language(time_first, flat).double(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, loss_fn, every=1, batch_axis=int(time_first)) as pit:
        for _ in range(3):
            words, targets = torch.randint(0, 11, (2, samples, length))
            words, targets = (words.mT, targets.mT) if time_first else (words, targets)
            optimizer.zero_grad()
            loss_fn(model(words).reshape(-1, 11), targets.reshape(-1)).backward()
            optimizer.step()
    return pit.get_output()[1]


@pytest.mark.parametrize(("samples", "length"), [(4, 3), (4, 4), (3, 8), (2, 6)])
def test_every_order_of_the_same_batch(samples: int, length: int) -> None:
    expected = measured(samples, length, time_first=False, flat=False)
    for time_first, flat in ((False, True), (True, False), (True, True)):
        found = measured(samples, length, time_first, flat)
        for name in ("NormTest", "InnerTest", "OrthoTest", "Alpha"):
            assert found[name] == pytest.approx(expected[name], rel=1e-9), (time_first, flat, name)


@pytest.mark.parametrize("shared", [1, 3])
def test_an_input_that_all_samples_share_is_not_the_batch(shared: int) -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, shift: Tensor, inputs: Tensor) -> Tensor:
            return self.layer(inputs + shift.mean(0))

    model, loss_fn = Shifted(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, loss_fn, quantities=["GradHist1d"], every=1) as pit:
        loss_fn(model(torch.randn(shared, 3), torch.randn(6, 3)), torch.randint(0, 2, (6,))).backward()
        optimizer.step()
    assert pit.get_output()[0]["GradHist1d"].counts.sum() == 6 * 8


# ---- against one sample at a time


class Own(nn.Module):
    """A model from a function and named modules."""

    def __init__(self, forward: Callable[..., Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self._forward = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self._forward(self, *inputs)


def norm_test(gradients: list[Tensor]) -> float:
    g, size = torch.stack(gradients), len(gradients)
    ratio = g.square().sum() / g.mean(0).square().sum()
    return float(((ratio - size) / (size * (size - 1))) ** 0.5)


def gradient(model: nn.Module, loss: Tensor) -> Tensor:
    grads = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)
    return torch.cat([grad.reshape(-1) for grad in grads])


def watched(model: nn.Module, backward: Callable[[], None], **options: object) -> Record:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    quantities, loss_fn = ["NormTest", "GradHist1d"], options.pop("loss_fn", None)
    with watch(model, optimizer, loss_fn, quantities=quantities, every=1, **options) as pit:
        backward()
        optimizer.step()
    return pit.history.series("NormTest")[0]


def linear(inputs: int, outputs: int) -> nn.Module:
    torch.manual_seed(inputs * outputs)
    return nn.Linear(inputs, outputs).double()


@pytest.mark.parametrize("sizes", [[3, 2, 4], [3, 3, 3], [1, 2, 3]])
def test_ragged_sets_are_right_or_left_out(sizes: list[int]) -> None:
    torch.manual_seed(0)
    owner = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    inputs, targets = torch.randn(len(owner), 3).double(), torch.randint(0, 2, (3,))

    def pooled(self: Own, rows: Tensor, owner: Tensor, count: int) -> Tensor:
        return self.h(torch.zeros(count, 4).double().index_add(0, owner, torch.tanh(self.a(rows))))

    model = Own(pooled, a=linear(3, 4), h=linear(4, 2))
    expected = [
        gradient(model, F.cross_entropy(model(inputs[owner == n], torch.zeros(k).long(), 1), targets[n : n + 1]))
        for n, k in enumerate(sizes)
    ]
    record = watched(model, lambda: F.cross_entropy(model(inputs, owner, 3), targets).backward(), batch_size=3)
    assert record.value == pytest.approx(norm_test(expected)) or record.reason


def test_a_model_that_returns_only_its_loss() -> None:
    """Sequence length, batch size and width all alike, and only the loss to be seen."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 4, 0.0, batch_first=True).double()

    def own_loss(self: Own, inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.h(self.body(inputs).mean(1)), targets)

    model = Own(own_loss, body=layer, h=linear(4, 3))
    inputs, targets = torch.randn(4, 4, 4).double(), torch.randint(0, 3, (4,))
    expected = [gradient(model, model(inputs[n : n + 1], targets[n : n + 1])) for n in range(4)]
    record = watched(model, lambda: model(inputs, targets).backward())
    assert record.value == pytest.approx(norm_test(expected))


@pytest.mark.parametrize("heads", [1, 2])
def test_two_backward_passes_over_one_forward_pass_are_one_batch(heads: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(linear(4, 5), nn.Tanh(), linear(5, 4))
    inputs, targets = torch.randn(6, 4).double(), torch.randint(0, 2, (6,))

    def losses(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        outputs = model(rows)
        other = outputs[:, 2:] if heads == 2 else outputs[:, :2] * 3
        return F.cross_entropy(outputs[:, :2], labels), other.square().mean()

    def backward() -> None:
        one, other = losses(inputs, targets)
        one.backward(retain_graph=True)
        other.backward()

    expected = [gradient(model, sum(losses(inputs[n : n + 1], targets[n : n + 1]))) for n in range(6)]
    assert watched(model, backward).value == pytest.approx(norm_test(expected))


def test_the_number_of_edges_is_not_the_batch() -> None:
    def graphs(self: Own, nodes: Tensor, edges: Tensor, owner: Tensor) -> Tensor:
        messages = torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]])
        return self.h(torch.zeros(4, 3).double().index_add(0, owner, torch.tanh(self.a(messages))))

    model = Own(graphs, a=linear(3, 3), h=linear(3, 3))
    nodes, owner = torch.randn(12, 3).double(), torch.repeat_interleave(torch.arange(4), torch.tensor([3, 2, 4, 3]))
    edges = torch.stack([torch.arange(12), torch.arange(12)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, quantities=["GradHist1d"], every=1) as pit:
        model(nodes, edges, owner).square().mean().backward()
        optimizer.step()
    record = pit.history.series("GradHist1d")[0]
    assert record.reason or record.value.counts.sum() == 4 * sum(p.numel() for p in model.parameters())
