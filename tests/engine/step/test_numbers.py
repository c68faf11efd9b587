"""Small results, put and read."""

from __future__ import annotations

import pytest
import torch

from cockpit.engine.step.numbers import Numbers, _Sent

TENSORS = {
    "a": torch.tensor([1.5, 2.5]),
    ("b", 1): torch.tensor([[2**50 + 1, 3]]),
    "c": torch.tensor(7.0, dtype=torch.float64),
    "d": torch.zeros(0, 3),
    "half": torch.tensor([0.5, 3.0], dtype=torch.bfloat16),
}


def test_numbers_are_read_as_they_are() -> None:
    numbers = Numbers()
    for key, tensor in TENSORS.items():
        numbers.put(key, tensor)
    assert numbers.ready
    for key, tensor in TENSORS.items():
        assert key in numbers
        assert numbers[key].shape == tuple(tensor.shape)
        assert numbers.values(key) == tensor.double().reshape(-1).tolist()
    assert "z" not in numbers
    with pytest.raises(KeyError):
        numbers["z"]


def test_counts_survive_the_way() -> None:
    sent = _Sent(TENSORS)
    assert sent.arrived
    found = sent.read()
    for key, tensor in TENSORS.items():
        assert found[key].tolist() == tensor.double().tolist()


def test_what_is_put_anew_replaces_what_was_read() -> None:
    numbers = Numbers()
    for value in (1.0, 2.0):
        numbers.put("a", torch.tensor([value]))
        assert numbers.values("a") == [value]
