"""A scaler is found on the heap, whatever else lies there."""

from __future__ import annotations

import gc
import weakref

import torch

from cockpit.engine.autograd.scaler import LossScale


class Thing:
    """Something to point to."""


def scaled(scaler: torch.amp.GradScaler) -> torch.Tensor:
    loss: torch.Tensor = scaler.scale(torch.ones((), requires_grad=True) * 1.0)
    return loss


def test_a_dead_proxy_does_not_disturb_the_search() -> None:
    thing = Thing()
    proxy = weakref.proxy(thing)
    del thing
    assert any(candidate is proxy for candidate in gc.get_objects())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    assert LossScale().of(scaled(scaler)) == 1024.0
    assert LossScale().of(3 * torch.ones((), requires_grad=True)) == 1.0
