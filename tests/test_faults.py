"""A fault of ours costs a step of watching, never the training."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.small import draw, net, sgd, train
from torch import nn

import cockpit
from cockpit.departure import Departure
from cockpit.engine.motion import Motion
from cockpit.engine.numbers import Numbers
from cockpit.engine.observation import Observation


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (Observation, "__post_init__"),
        (Motion, "mark"),
        (Motion, "take"),
        (Observation, "release"),
        (Departure, "leave"),
    ],
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


def test_a_lost_device_does_not_hide_the_users_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: Any
) -> None:
    model, batches, loss_fn = net(), draw(4, 4, 4), nn.CrossEntropyLoss()
    optimizer = sgd(model)

    def lost(self: Numbers) -> None:
        raise RuntimeError("the device is lost")

    def training() -> None:
        with cockpit.watch(model, optimizer, loss_fn, every=1, run=tmp_path / "run"):
            train(model, optimizer, loss_fn, batches)
            monkeypatch.setattr(Numbers, "ask", lost)
            train(model, optimizer, loss_fn, batches)
            raise KeyError("the user's own")

    with caplog.at_level(logging.WARNING, "cockpit"), pytest.raises(KeyError, match="the user's own"):
        training()
    assert "could not be measured: RuntimeError: the device is lost" in caplog.text
    run = cockpit.open_run(tmp_path / "run")
    assert run.state == "crashed"
    assert run.steps[:2] == [0, 1]
