"""Work side by side while a CUDA graph is recorded; in its turn anywhere else."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from torch import Tensor

from cockpit.engine import branches
from cockpit.engine.branches import Later, beside, meet, side_by_side
from cockpit.engine.replay import Replay

CPU = torch.device("cpu")


def test_done_at_once_where_nothing_is_recorded() -> None:
    seen = list[int]()
    with side_by_side(CPU):
        later = beside(lambda: seen.append(1) or 5)
        assert seen == [1]
        meet()
    assert (later.now(), later.value) == (5, 5)
    assert beside(lambda: 7).value == 7


def test_an_error_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError), side_by_side(CPU):
        beside(lambda: 1 // 0)


class Stream:
    """Stands for a stream of a GPU: writes down whom it waits for."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self._log = name, log

    def wait_stream(self, other: Stream) -> None:
        self._log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event: Event) -> None:
        self._log.append(f"{self.name} waits for {event.at}")


class Event:
    at = ""

    def record(self, stream: Stream) -> None:
        self.at = f"the end of work on {stream.name}"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What streams wait for, as if a graph were recorded."""
    log = list[str]()
    made = [Stream(name, log) for name in ("trunk", "one", "two")]
    current = [made[0]]

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(branches, "streams", lambda device: made)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: current[-1])
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    return log


GPU = torch.device("cuda", 0)


def test_branches_wait_for_the_trunk_and_it_for_them(log: list[str]) -> None:
    with side_by_side(GPU):
        first, _, third = beside(lambda: 1), beside(lambda: 2), beside(lambda: 3, heavy=True)
        assert log == ["one waits for trunk", "two waits for trunk", "one waits for trunk"]
        assert (first.now(), third.value) == (1, 3)
        assert log.pop() == "trunk waits for the end of work on one"
        del log[:]
        meet()
        assert log == ["trunk waits for one", "trunk waits for two"]
        meet()
        assert len(log) == 2  # nothing was done since
    assert len(log) == 2


def test_what_a_branch_reads_is_held_until_they_meet(log: list[str]) -> None:
    read = torch.zeros(3)
    there = weakref.ref(read)
    with side_by_side(GPU):
        beside(lambda: None, held=read)
        del read
        assert there() is not None
        meet()
        assert there() is None


def test_in_a_branch_or_another_region_nothing_branches(log: list[str]) -> None:
    with side_by_side(GPU), side_by_side(GPU):
        assert beside(lambda: beside(lambda: 5).value).value == 5
        assert log == ["one waits for trunk"]
    assert log == ["one waits for trunk", "trunk waits for one"]


def test_a_region_that_fails_is_closed(log: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), side_by_side(GPU):
        beside(lambda: 1 // 0)
    assert log == ["one waits for trunk", "trunk waits for one"]
    assert beside(lambda: 2).value == 2
    assert len(log) == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_nothing_is_overwritten_before_it_was_read() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    start = torch.arange(2.0**20, device=device).fmod(13)

    def function() -> Tensor:
        trunk, total = start.clone(), torch.zeros_like(start)
        with side_by_side(device):
            for k in range(20):
                ahead: Later[Tensor] = beside(partial(torch.mul, start, k))
                scratch = trunk + k  # let go at once: the trunk takes its memory for what comes next
                part = beside(partial(torch.norm, scratch), scratch)
                del scratch
                trunk = (trunk + 1).fmod(17) + ahead.now()
                if k % 3 == 2:
                    meet()
                    total += part.value
        return total + trunk

    expected, replay = function(), Replay(function, device)
    for _ in range(5):
        torch.testing.assert_close(replay(), expected, rtol=0, atol=0)
