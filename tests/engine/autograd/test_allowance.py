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
    allowance = Allowance(memory=4000)
    allowance.begin()
    assert allowance.choose(10, kept=True) is None  # nothing is known of a step yet
    assert allowance.keep([torch.zeros(400)])
    assert not allowance.keep([torch.zeros(1600)])
    allowance.kept(10)
    allowance.begin()
    assert len(allowance.choose(10, kept=True)) == 5  # type: ignore[arg-type]
    assert allowance.choose(10, kept=False) is None  # what need not be kept is not limited by it


def test_time_limits_samples() -> None:
    allowance = Allowance(seconds=0.01)
    allowance.spent(100, 0.05)
    assert len(allowance.choose(100, kept=False)) == 20  # type: ignore[arg-type]


def test_a_device_without_memory_halves_it() -> None:
    allowance = Allowance(memory=4000)
    allowance.halve(torch.zeros(1))
    assert allowance.memory == 2000


def test_chunks_follow_the_memory() -> None:
    like = torch.zeros(1)
    assert Allowance(memory=1600).elements(like) == 100
    assert Allowance().elements(like) == 2**20


def test_on_a_gpu_ours_is_a_share_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    like, room = torch.zeros(1), {"allocated": 4 * 2**30, "free": 6 * 2**30}
    monkeypatch.setattr(allowance, "on_gpu", lambda _: True)
    for name in room:
        monkeypatch.setattr(allowance, name, lambda _, name=name: room[name])
    ours = Allowance()
    ours.enter(like, vectors=2**30)
    assert ours.elements(like) == int(0.05 * 3 * 2**30) // 16
    assert ours.keep([torch.zeros(2**10)])
    room["free"] = 80 * 2**30  # the device is nearly empty
    ours.enter(like, vectors=2**30)
    assert ours.elements(like) == 2**29 // 16
    room["free"] = 2**20  # nearly nothing is left
    ours.enter(like, vectors=0)
    assert ours.elements(like) == 2**20 // 2 // 16
    assert not ours.keep([torch.zeros(2**18)])
    assert ours.on_host(2**27, like)
    assert not ours.on_host(2**20, like)
