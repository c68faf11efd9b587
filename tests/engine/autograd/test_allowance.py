"""Samples are drawn at random without replacement, from a generator of our own; what does not fit is not kept."""

from __future__ import annotations

import pytest
import torch

from cockpit.engine.autograd import allowance
from cockpit.engine.autograd.allowance import Allowance


def test_all_samples_where_nothing_limits_them() -> None:
    assert Allowance().choose(8, kept=True) is None
    assert Allowance(samples=8).choose(8, kept=True) is None


def test_every_sample_is_drawn_equally_often_and_never_twice() -> None:
    before = torch.get_rng_state()
    limited, counts = Allowance(samples=3), torch.zeros(8)
    for _ in range(4000):
        chosen = limited.choose(8, kept=False)
        assert chosen is not None
        assert len(chosen.unique()) == 3
        counts[chosen] += 1
    assert (counts / 4000 - 3 / 8).abs().max() < 0.04
    assert torch.equal(torch.get_rng_state(), before)


def test_what_does_not_fit_is_refused_and_fewer_samples_follow() -> None:
    allowance = Allowance(limit=4000)
    allowance.begin()
    assert allowance.choose(10, kept=True) is None  # nothing is known of a step yet
    assert allowance.keep([torch.zeros(400)])
    assert not allowance.keep([torch.zeros(1600)])
    allowance.leave(torch.zeros(1), 10)
    allowance.begin()
    assert len(allowance.choose(10, kept=True)) == 5  # type: ignore[arg-type]
    assert allowance.choose(10, kept=False) is None  # what need not be kept is not limited by it


def test_a_device_without_memory_halves_it() -> None:
    allowance = Allowance(limit=4000)
    allowance.halve(torch.zeros(1))
    assert allowance.limit == 2000


def test_chunks_follow_the_memory() -> None:
    like = torch.zeros(1)
    assert Allowance(limit=1600).elements(like) == 100
    assert Allowance().elements(like) == 2**20


GIB = 2**30
MIB = 2**20


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A made-up GPU: what it answers may be changed."""
    room = {"allocated": 4 * GIB, "most_allocated": 4 * GIB, "free": 80 * GIB}
    monkeypatch.setattr(allowance, "on_gpu", lambda _: True)
    for name in room:
        monkeypatch.setattr(allowance, name, lambda _, name=name: room[name])
    return room


def test_on_a_gpu_both_stay_below_the_peak_of_training_and_a_share(gpu: dict[str, int]) -> None:
    like, ours = torch.zeros(1), Allowance()
    gpu["most_allocated"] = 10 * GIB  # before the run was watched
    ours.enter(like, vectors=GIB)
    limit = int(9 * 1.05 * GIB)
    assert ours._unused(like) == limit - 4 * GIB
    gpu["allocated"] = limit - 160 * MIB  # in the middle of the pass
    assert ours.elements(like) == 10 * MIB
    assert ours.keep([torch.zeros(39 * MIB)])
    assert not ours.keep([torch.zeros(41 * MIB)])
    gpu["allocated"] = 12 * GIB  # training itself is beyond
    assert ours.elements(like) == allowance.SMALLEST


def test_what_both_took_in_a_tracked_pass_is_no_peak_of_training(gpu: dict[str, int]) -> None:
    like, ours = torch.zeros(1), Allowance()
    ours.enter(like, 0)
    gpu["most_allocated"] = 6 * GIB
    ours.leave(like, 0)
    ours.enter(like, 0)
    assert ours._unused(like) == int(4 * GIB * 0.05)
    gpu["most_allocated"] = 7 * GIB  # between the tracked passes
    ours.enter(like, 0)
    assert ours._unused(like) == int(7 * GIB * 1.05) - 4 * GIB


def test_small_trainings_may_be_joined_by_64_mib_and_half_of_what_is_free_stays_free(gpu: dict[str, int]) -> None:
    like, ours = torch.zeros(1), Allowance()
    gpu |= {"allocated": 100 * MIB, "most_allocated": 100 * MIB}
    ours.enter(like, 0)
    assert ours._unused(like) == 64 * MIB
    gpu["free"] = 2 * MIB
    ours.enter(like, 0)
    assert ours._unused(like) == MIB


def test_a_step_that_may_take_twice_the_memory_needs_it(gpu: dict[str, int]) -> None:
    like, ours = torch.zeros(1), Allowance()
    gpu |= {"allocated": GIB, "most_allocated": 4 * GIB, "free": 6 * GIB}
    assert ours.roomy(like)
    gpu["free"] = 5 * GIB
    assert not ours.roomy(like)


def test_large_copies_of_the_model_lie_in_the_hosts_memory(gpu: dict[str, int]) -> None:
    like, ours = torch.zeros(1), Allowance()
    assert ours.on_host(300 * MIB, like)
    assert not ours.on_host(200 * MIB, like)
    assert not Allowance(share=0.1).on_host(300 * MIB, like)
