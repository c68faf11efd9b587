from __future__ import annotations

from typing import Any

import pytest
import torch

from cockpit.bench.seeds import epoch_generator, epoch_generators, global_seed, model_seed
from cockpit.core.errors import CockpitError


def drawn(seed: int, epoch: int, order: str) -> tuple[int, ...]:
    return tuple(torch.randperm(1000, generator=epoch_generators(seed, epoch, order)[-1]).tolist())


def test_a_fresh_order_in_every_epoch_of_every_seed() -> None:
    assert len({drawn(seed, epoch, "fresh") for seed in range(3) for epoch in range(3)}) == 9
    assert drawn(1, 2, "fresh") == drawn(1, 2, "fresh")


def test_a_fixed_order_leaves_out_the_same_samples() -> None:
    assert drawn(1, 0, "fixed") == drawn(1, 7, "fixed") == drawn(1, 0, "fresh")
    assert drawn(1, 0, "fixed") != drawn(2, 0, "fixed")


def test_a_fixed_order_does_not_fix_the_augmentation() -> None:
    first, later = (epoch_generators(1, epoch, "fixed")[0].initial_seed() for epoch in (0, 1))
    assert first != later


def test_no_two_purposes_share_a_stream() -> None:
    seeds = [global_seed(seed, epoch) for seed in range(50) for epoch in range(50)]
    seeds += [epoch_generator(seed, epoch).initial_seed() for seed in range(50) for epoch in range(50)]
    seeds += [model_seed(seed) for seed in range(50)]
    assert len({seed % 2**32 for seed in seeds}) == len(seeds)  # all that a generator on a CPU reads of a seed


def test_the_model_has_the_seed_of_the_run() -> None:
    assert model_seed(42) == 42


def test_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    drawn(1, 1, "fresh")
    global_seed(1, 1)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, None])
def test_wrong_seed(seed: Any) -> None:
    for function in (model_seed, lambda seed: global_seed(seed, 0), lambda seed: epoch_generator(seed, 0)):
        with pytest.raises(CockpitError, match="give a whole number, 0 or more"):
            function(seed)


def test_wrong_order() -> None:
    with pytest.raises(CockpitError, match="unknown order of mini-batches 'random'"):
        epoch_generators(1, 1, "random")
