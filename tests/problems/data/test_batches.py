"""Batches: complete, drawn from a generator, the same for the same seed, on any device."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batches, Splits
from cockpit.problems.data import batches as module
from cockpit.problems.data.batches import Head, Redrawn, Resident, Shuffled, autoencoding, complete, resized


def numbered(samples: int = 22) -> Resident:
    """Bytes that say which sample they are; augmentation adds 100 or 200, preparation a half."""

    def augment(inputs: Tensor, generator: torch.Generator) -> Tensor:
        return inputs + 100 * torch.randint(1, 3, (len(inputs), 1), generator=generator).to(inputs)

    inputs = torch.arange(samples, dtype=torch.uint8).reshape(-1, 1)
    return Resident(inputs, torch.arange(samples), augment, lambda taken: taken.float() + 0.5)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drained(batches: Batches, seed: int | None, size: int = 4) -> tuple[Tensor, Tensor]:
    taken = list(batches.epoch(size, None if seed is None else seeded(seed)))
    return torch.cat([batch[0] for batch in taken]), torch.cat([batch[1] for batch in taken])


def test_without_generator_in_order_prepared_and_not_augmented() -> None:
    batches = numbered()
    inputs, targets = drained(batches, None)
    assert (len(batches), batches.steps(4), batches.steps(23)) == (22, 5, 0)
    assert targets.tolist() == list(range(20))  # complete batches only
    assert torch.equal(inputs[:, 0], targets + 0.5)


def test_with_generator_shuffled_and_augmented() -> None:
    inputs, targets = drained(numbered(), 0)
    assert targets.tolist() != sorted(targets.tolist())
    assert len(set(targets.tolist())) == 20
    assert set((inputs[:, 0] - targets - 0.5).tolist()) == {100.0, 200.0}


def test_the_seed_decides_and_the_global_state_does_not() -> None:
    state = torch.get_rng_state()
    first, again, other = (drained(numbered(), seed) for seed in (1, 1, 2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[1], other[1])
    assert torch.equal(state, torch.get_rng_state())


def test_a_generator_goes_on_from_epoch_to_epoch() -> None:
    generator, batches = seeded(0), numbered()
    epochs = [torch.cat([targets for _, targets in batches.epoch(4, generator)]).tolist() for _ in range(2)]
    assert epochs[0] != epochs[1]


def test_a_fixed_order_under_changing_augmentation() -> None:
    batches = Resident(torch.arange(20.0), torch.arange(20), augment=lambda x, g: x + torch.rand(len(x), generator=g))
    first, second = (list(zip(*batches.epoch(5, seeded(epoch), seeded(9)), strict=True)) for epoch in (0, 1))
    assert torch.equal(torch.cat(first[1]), torch.cat(second[1]))
    assert not torch.equal(torch.cat(first[0]), torch.cat(second[0]))
    assert not torch.equal(torch.cat(first[1]), torch.arange(20))


def test_batches_too_large_give_none() -> None:
    assert list(numbered(3).epoch(4)) == []
    assert list(numbered(3).epoch(4, seeded(0))) == []


def test_data_stay_bytes() -> None:
    assert numbered().inputs.dtype == torch.uint8


def test_wrong_input() -> None:
    with pytest.raises(CockpitError, match="2 inputs have 3 targets"):
        Resident(torch.zeros(2), torch.zeros(3))
    with pytest.raises(CockpitError, match="batch size is 0"):
        complete(10, 0)


def test_a_head_is_the_beginning_of_an_epoch() -> None:
    batches = numbered()
    head = Head(batches, 9)
    assert (len(head), head.steps(4), len(Head(batches, 50))) == (9, 2, 22)
    for seed in (None, 3):
        whole, part = drained(batches, seed), drained(head, seed)
        assert torch.equal(part[0], whole[0][:8])
        assert torch.equal(part[1], whole[1][:8])


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_a_redrawn_split_takes_whole_files(seed: int | None) -> None:
    generator = None if seed is None else seeded(seed)
    again = None if seed is None else seeded(seed)
    train = Redrawn(23, file=5, held=5, validation=False)(generator).tolist()
    valid = Redrawn(23, file=5, held=5, validation=True)(again).tolist()
    assert sorted(train + valid) == list(range(23))  # of the same draw; two draws overlap
    if seed is None:
        assert valid == list(range(5))
        assert train == list(range(5, 23))
    else:
        assert train != sorted(train)
        assert valid[0] % 5 == 0  # begins with a file, in its order
        assert valid[:3] == list(range(valid[0], valid[0] + 3))


def test_a_redrawn_split_changes_from_draw_to_draw() -> None:
    generator = seeded(0)
    valid = Redrawn(50, file=10, held=10, validation=True)
    drawn = {tuple(valid(generator).tolist()) for _ in range(60)}
    assert drawn == {tuple(range(first, first + 10)) for first in range(0, 50, 10)}
    assert len(valid) == 10
    assert len(Redrawn(50, file=10, held=10, validation=False)) == 40


def test_an_order_of_one_s_own() -> None:
    batches = Resident(torch.arange(6), torch.arange(6), order=Shuffled(4))
    assert len(batches) == 4
    assert drained(batches, None)[0].tolist() == [0, 1, 2, 3]


def images() -> Splits:
    pixels = torch.arange(8 * 9, dtype=torch.uint8).reshape(8, 1, 3, 3)
    split = Resident(pixels, torch.zeros(8), lambda taken, _: 255 - taken, lambda taken: taken.float())
    return Splits(split, Head(split, 4), None, split)


def test_autoencoding_has_the_prepared_inputs_as_targets() -> None:
    splits = autoencoding(images())
    assert splits.valid is None
    for seed in (None, 0):
        inputs, targets = drained(splits.train, seed)
        assert torch.equal(inputs, targets)
        assert inputs.dtype == torch.float32
        assert torch.equal(inputs, drained(images().train, seed)[0])


def test_resized() -> None:
    inputs, targets = drained(resized(images(), 6).train_eval, None)
    assert inputs.shape == (4, 1, 6, 6)
    assert targets.shape == (4,)
    plain = drained(images().train_eval, None)[0]
    torch.testing.assert_close(inputs.mean((1, 2, 3)), plain.mean((1, 2, 3)))
    assert inputs[0, 0, 0, :3].tolist() == pytest.approx([0, 0.25, 0.75])  # between the centres of pixels 0 and 1


def test_what_shares_data_shares_their_copy() -> None:
    batches = numbered()
    moved = batches.to("meta")
    assert batches.to("meta") is moved
    assert Head(batches, 9).to("meta").batches is moved
    assert moved.inputs.device.type == "meta"
    assert batches.to("cpu") is batches


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("resident", [True, False])
def test_a_gpu_gets_the_same_batches(resident: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fits", lambda *tensors, device: resident)
    moved = numbered().to("cuda")
    assert (moved.inputs.device.type == "cuda") is resident
    for seed in (None, 0):
        there, here = drained(moved, seed), drained(numbered(), seed)
        assert there[0].device.type == there[1].device.type == "cuda"
        assert torch.equal(there[0].cpu(), here[0])
        assert torch.equal(there[1].cpu(), here[1])
