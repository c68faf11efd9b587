"""The character model carries its state from batch to batch until a phase begins."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from cockpit.core.errors import CockpitError
from cockpit.problems.nets.char_lstm import CharLSTM
from cockpit.problems.tolstoi_char_rnn import tolstoi_char_rnn


@pytest.fixture
def model() -> CharLSTM:
    model = tolstoi_char_rnn.model(0)
    assert isinstance(model, CharLSTM)
    return model.eval()


@pytest.fixture
def text() -> torch.Tensor:
    return torch.randint(83, (3, 12), generator=torch.Generator().manual_seed(0))


def begin(model: CharLSTM) -> None:
    assert tolstoi_char_rnn.begin is not None
    tolstoi_char_rnn.begin(model)


@torch.no_grad()
def test_two_batches_are_one_text(model: CharLSTM, text: torch.Tensor) -> None:
    whole = model(text)
    begin(model)
    halves = torch.cat([model(text[:, :6]), model(text[:, 6:])], dim=1)
    torch.testing.assert_close(halves, whole)
    begin(model)
    assert not torch.allclose(model(text[:, 6:]), whole[:, 6:])


def test_no_gradient_flows_into_the_batch_before(model: CharLSTM, text: torch.Tensor) -> None:
    model(text[:, :6])
    assert model.states is not None
    assert not any(tensor.requires_grad for state in model.states for tensor in state)
    model(text[:, 6:]).sum().backward()


def test_another_batch_size_is_refused_until_a_phase_begins(model: CharLSTM, text: torch.Tensor) -> None:
    model(text)
    with pytest.raises(CockpitError, match=r"has 2 rows of text, the state that it continues 3; .*begin"):
        model(text[:2])
    begin(model)
    assert model(text[:2]).shape == (2, 12, 83)
    assert tolstoi_char_rnn.begin is not None
    tolstoi_char_rnn.begin(torch.nn.Sequential(model))  # wrapped
    assert model.states is None


@torch.no_grad()
def test_a_layer_is_the_lstm_of_the_textbook(model: CharLSTM, text: torch.Tensor) -> None:
    hidden = model.embedding(text)
    for layer in model.layers:
        output, cell = torch.zeros(3, 128), torch.zeros(3, 128)
        steps = []
        for inputs in hidden.unbind(1):
            gates = F.linear(inputs, layer.weight_ih_l0, layer.bias_ih_l0) + F.linear(output, layer.weight_hh_l0)
            write, forget, value, read = gates.chunk(4, dim=1)
            cell = forget.sigmoid() * cell + write.sigmoid() * value.tanh()
            output = read.sigmoid() * cell.tanh()
            steps.append(output)
        hidden = torch.stack(steps, dim=1)
    torch.testing.assert_close(model(text), model.head(hidden))


def test_initial_weights(model: CharLSTM) -> None:
    for layer in model.layers:
        assert layer.bias_ih_l0.tolist() == [0.0] * 128 + [1.0] * 128 + [0.0] * 256
        assert not layer.bias_hh_l0.any()
        assert not layer.bias_hh_l0.requires_grad
        for weight in (layer.weight_ih_l0, layer.weight_hh_l0):
            assert float(weight.detach().abs().max()) == pytest.approx(math.sqrt(6 / (256 + 512)), rel=1e-3)
    assert float(model.head.bias.detach().abs().max()) == pytest.approx(math.sqrt(6 / 166), rel=0.05)
    assert float(model.embedding.weight.detach().abs().max()) == pytest.approx(math.sqrt(6 / 211), rel=1e-2)


def test_a_step_moves_all_but_the_second_bias(text: torch.Tensor) -> None:
    model = tolstoi_char_rnn.model(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tolstoi_char_rnn.losses(model(text[:, :-1]), text[:, 1:]).mean().backward()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer.step()
    still = {name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])}
    assert still == {"layers.0.bias_hh_l0", "layers.1.bias_hh_l0"}


def test_loss_and_accuracy_are_means_over_characters() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(3, 5, 83), torch.randint(83, (3, 5))
    found = tolstoi_char_rnn.losses(logits, targets)
    expected = [[-float(logits[n, t].log_softmax(0)[targets[n, t]]) for t in range(5)] for n in range(3)]
    assert found.tolist() == pytest.approx([sum(row) / 5 for row in expected], rel=1e-5)
    logits[0, :2, :] = 100 * F.one_hot(targets[0, :2], 83)
    logits[0, 2:, :] = -100 * F.one_hot(targets[0, 2:], 83)
    assert tolstoi_char_rnn.accuracies is not None
    assert float(tolstoi_char_rnn.accuracies(logits, targets)[0]) == pytest.approx(0.4)


def test_dropout_acts_before_and_after_each_layer() -> None:
    model = tolstoi_char_rnn.model(0).train()
    calls: list[torch.Size] = []
    model.get_submodule("dropout").register_forward_hook(lambda module, inputs, outputs: calls.append(outputs.shape))
    model(torch.zeros(2, 4, dtype=torch.long))
    assert calls == [(2, 4, 128)] * 4
