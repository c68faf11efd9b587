"""Small results, packed and read."""

from __future__ import annotations

import pytest
import torch

from cockpit.engine.numbers import Columns, Numbers, pack

TENSORS = {
    "a": torch.tensor([1.5, 2.5]),
    ("b", 1): torch.tensor([[2**50 + 1, 3]]),
    "c": torch.tensor(7.0, dtype=torch.float64),
    "d": torch.zeros(0, 3),
}


def test_counts_survive_packing() -> None:
    packed, manifest = pack(TENSORS)
    numbers = Numbers()
    numbers.put_packed(packed, manifest)
    assert not numbers.ready
    numbers.send()
    assert numbers.ready
    for key, tensor in TENSORS.items():
        assert key in numbers
        assert numbers[key].shape == tuple(tensor.shape)
        assert numbers.values(key) == tensor.double().reshape(-1).tolist()


def test_reading_sends_what_has_not_been_sent() -> None:
    numbers = Numbers(hold=True)
    numbers.put("a", TENSORS["a"])
    assert "a" in numbers
    assert not numbers.ready
    assert numbers.values("a") == [1.5, 2.5]
    assert "b" not in numbers
    with pytest.raises(KeyError):
        numbers["b"]


def test_a_packed_vector_is_read_before_it_is_used_again() -> None:
    packed, manifest = pack({"a": TENSORS["a"]})
    numbers = Numbers()
    numbers.put_packed(packed, manifest)
    numbers.send()
    packed.zero_()
    assert numbers.values("a") == [1.5, 2.5]


def test_what_is_dropped_is_gone_from_this_step_only() -> None:
    packed, manifest = pack(TENSORS)
    first, second = Numbers(), Numbers()
    for numbers in (first, second):
        numbers.put_packed(packed, manifest)
        numbers.send()
    first.drop("a")
    assert "a" not in first
    assert "a" in second


def test_half_precision_is_read_as_it_is() -> None:
    numbers = Numbers()
    numbers.put("a", torch.tensor([0.5, 3.0], dtype=torch.bfloat16))
    assert numbers.values("a") == [0.5, 3.0]


def test_what_is_put_anew_replaces_what_was_read() -> None:
    numbers = Numbers(hold=True)
    numbers.put("a", torch.tensor([1.0]))
    assert numbers.values("a") == [1.0]
    assert numbers["a"].tolist() == [1.0]
    numbers.put("a", torch.tensor([2.0]))
    assert numbers.values("a") == [2.0]
    assert numbers["a"].tolist() == [2.0]


def test_what_is_packed_anew_replaces_what_was_read() -> None:
    numbers = Numbers()
    for value in (1.0, 2.0):
        numbers.put_packed(*pack({"a": torch.tensor([value])}))
        assert numbers.values("a") == [value]
        assert numbers.values("a") == [value]


def sent(shift: float) -> Numbers:
    numbers = Numbers()
    numbers.put_packed(*pack({key: tensor + shift for key, tensor in TENSORS.items()}))
    numbers.send()
    return numbers


def test_numbers_that_are_packed_alike_are_rows() -> None:
    one, other = sent(0.0), sent(1.0)
    for numbers, value in ((one, 4.0), (other, 5.0)):
        numbers.put("c", torch.tensor(value))  # put last: this counts
        numbers.put("late", torch.tensor([value, 0.5]))
    assert one.alike(other)
    columns = Columns([one, other])
    assert columns["a"].tolist() == [[1.5, 2.5], [2.5, 3.5]]
    assert columns["b", 1].shape == (2, 2)
    assert columns["c"].tolist() == [[4.0], [5.0]]
    assert columns["late"].dtype == "float64"
    assert "late" in columns
    assert "z" not in columns


def test_numbers_that_are_not_alike() -> None:
    one = sent(0.0)
    different = [sent(0.0) for _ in range(5)]
    different[0].put("c", torch.tensor(1.0))
    different[1].drop("a")
    different[2].put_packed(*pack(TENSORS))
    different[3].put_packed(*pack({"more": TENSORS["a"]}))
    different[3].send()
    different[4] = Numbers()
    different[4].put_packed(*pack({"a": TENSORS["a"]}))
    different[4].send()
    assert one.alike(sent(1.0))
    for other in different:
        assert not one.alike(other)
        assert not other.alike(one)
