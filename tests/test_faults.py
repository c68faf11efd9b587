"""A fault of ours costs a step of watching, never the training."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.small import BACKWARD, draw, net, sgd, train, watch, watched
from torch import nn

import cockpit
from cockpit.core.guard import entry
from cockpit.departure import Departure
from cockpit.engine.capture import Capture
from cockpit.engine.losses import LossCall
from cockpit.engine.motion import Motion
from cockpit.engine.numbers import Numbers
from cockpit.engine.observation import Observation
from cockpit.engine.recorder import Recorder
from cockpit.recording import Recording
from cockpit.roster import Roster
from cockpit.tracker import Tracker

ENTRIES = [
    (Tracker, "begin"),
    (Tracker, "_measure"),
    (Tracker, "_remember_start"),
    (Roster, "_refresh"),
    (Recorder, "saw_model"),
    (Recorder, "saw_loss"),
    (Recorder, "before"),
    (Recorder, "attach"),
    (Recorder, "alone"),
    (Recorder, "after"),
    (Recorder, "_take_gradient"),
    (Recorder, "gradient_is_untouched"),
    (Observation, "__post_init__"),
    (Observation, "release"),
    (Motion, "mark"),
    (Motion, "take"),
    (Departure, "leave"),
    (Recording, "book"),
    (Recording, "reached"),
    (Tracker, "close"),
]


def broken(monkeypatch: pytest.MonkeyPatch, where: Any, what: str, error: Exception) -> list[int]:
    """A function of ours that fails at its first call from here on; its calls are counted."""
    calls, right = list[int](), getattr(where, what)

    def breaks_once(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise error
        return right(*args, **kwargs)

    monkeypatch.setattr(where, what, breaks_once)
    return calls


@pytest.mark.parametrize("error", [RuntimeError("a fault of ours"), MemoryError("a fault of ours")])
@pytest.mark.parametrize(("where", "what"), ENTRIES)
def test_training_goes_on(
    where: Any, what: str, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: Any, tmp_path: Path
) -> None:
    plain, batches, loss_fn = net(), draw(4, 4, 4, 4), nn.CrossEntropyLoss()
    train(plain, sgd(plain), loss_fn, batches)
    watched, run = net(), tmp_path / "run"
    optimizer = sgd(watched)
    caplog.set_level(logging.WARNING, "cockpit")
    with cockpit.watch(watched, optimizer, loss_fn, every=1, run=run) as pit:
        calls = broken(monkeypatch, where, what, error)
        train(watched, optimizer, loss_fn, batches)
    assert calls
    reasons = [record.reason for record in pit.history]
    said = f"{type(error).__name__}: a fault of ours"
    assert f"could not be measured: {said}" in caplog.text or said in reasons
    assert cockpit.open_run(run).steps[-1] == 3
    assert isinstance(pit.get_output()[3]["Loss"], float)
    assert torch.autograd.backward is BACKWARD
    assert all(torch.equal(one, other) for one, other in zip(plain.parameters(), watched.parameters(), strict=True))


@pytest.mark.parametrize(("where", "what"), [(Capture, "_take"), (LossCall, "keep")])
def test_what_fails_inside_autograd_is_a_reason(where: Any, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_REPLAY", "0")
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)

    def breaks(*_: Any) -> None:
        raise MemoryError("a fault of ours")

    with watch(model, optimizer, loss_fn) as pit:
        if what == "_take":
            monkeypatch.setattr(where, what, breaks)
        else:  # torch's own detach runs out of memory
            monkeypatch.setattr(LossCall, "keep", entry(breaks))
        train(model, optimizer, loss_fn, draw(4, 4))
    steps = pit.get_output()
    assert all(isinstance(values["Loss"], float) for values in steps.values())
    assert all(values["NormTest" if what == "_take" else "Alpha"] is None for values in steps.values())
    assert all(record.reason for record in pit.history if record.value is None)


def test_a_schedule_that_fails_is_said_not_raised(caplog: Any) -> None:
    def every(step: int) -> bool:
        if step in (2, 3):
            raise ZeroDivisionError("the user's own")
        return True

    with caplog.at_level(logging.WARNING, "cockpit"):
        pit = watched(draw(*[4] * 6), every=every)
    assert list(pit.get_output()) == [0, 1, 4, 5]
    assert "could not be measured: ZeroDivisionError: the user's own" in caplog.text


def test_a_schedule_that_fails_at_once_is_raised_where_it_was_given() -> None:
    def every(step: int) -> bool:
        raise ZeroDivisionError("the user's own")

    model = net()
    optimizer = sgd(model)
    with pytest.raises(ZeroDivisionError, match="the user's own"):
        watch(model, optimizer, nn.CrossEntropyLoss(), every=every)
    assert not optimizer._optimizer_step_post_hooks
    train(model, optimizer, nn.CrossEntropyLoss(), draw(4))


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
