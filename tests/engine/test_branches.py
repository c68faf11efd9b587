"""Work side by side while a CUDA graph is recorded; in its turn anywhere else."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

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
