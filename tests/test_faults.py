"""A fault of ours costs a step of watching, never the training."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from tests.small import draw, net, sgd, train
from torch import nn

import cockpit
from cockpit.engine.motion import Motion
from cockpit.engine.observation import Observation


@pytest.mark.parametrize(
    ("where", "what"), [(Observation, "__post_init__"), (Motion, "mark"), (Motion, "take"), (Observation, "release")]
)
def test_training_goes_on(where: Any, what: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    plain, batches, loss_fn = net(), draw(4, 4, 4), nn.CrossEntropyLoss()
    train(plain, sgd(plain), loss_fn, batches)
    watched, calls, right = net(), list[int](), getattr(where, what)

    def breaks_once(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("a fault of ours")
        return right(*args, **kwargs)

    optimizer = sgd(watched)
    with caplog.at_level(logging.WARNING, "cockpit"), cockpit.watch(watched, optimizer, loss_fn, every=1) as pit:
        monkeypatch.setattr(where, what, breaks_once)
        train(watched, optimizer, loss_fn, batches)
    assert calls
    assert "could not be measured: RuntimeError: a fault of ours" in caplog.text
    assert isinstance(pit.get_output()[2]["Loss"], float)
    assert all(torch.equal(one, other) for one, other in zip(plain.parameters(), watched.parameters(), strict=True))
