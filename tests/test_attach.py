"""``watch``: what is attached and when, and how often it tracks."""

from __future__ import annotations

import copy
import gc
import io
import re
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.small import (
    BACKWARD,
    draw,
    hooks,
    net,
    nothing_left,
    same,
    sgd,
    step_hooks,
    train,
    watch,
    watched,
)
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from cockpit.core.schedule import linear, logarithmic
from cockpit.engine.autograd import tap
from cockpit.quantities import GradNorm, Loss
from cockpit.tracking.hooks import Hook

FULL = pytest.mark.parametrize("quantities", ["economy", "full"])


# ---- hooks


def test_hooks_are_there_on_tracked_steps_only() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer, seen = sgd(model), []
    with watch(model, optimizer, loss_fn, ["GradNorm", "NormTest"], every=3):
        for batch in draw(4, 4, 4, 4, 4, 4):
            seen.append((hooks(model, loss_fn) > 0, torch.autograd.backward is not BACKWARD))
            train(model, optimizer, loss_fn, [batch])
    assert seen == [(True, True), (False, False), (False, False)] * 2


def test_a_pair_of_steps_is_seen_at_both_ends() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer, seen = sgd(model), []
    with watch(model, optimizer, loss_fn, ["Alpha"], every=4) as pit:
        for batch in draw(*[4] * 8):
            seen.append(hooks(model, loss_fn) > 0)
            train(model, optimizer, loss_fn, [batch])
    assert seen == [True, True, False, False] * 2
    output = pit.get_output()
    assert list(output) == [0, 4]
    assert all(isinstance(values["Alpha"], float) for values in output.values())


@FULL
def test_close_leaves_nothing_behind(quantities: str) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    attributes = set(vars(model)), {id(p): set(vars(p)) for p in model.parameters()}
    pit = watch(model, optimizer, loss_fn, quantities)
    train(model, optimizer, loss_fn, draw(4, 4, 4))
    assert step_hooks(optimizer) > 0
    pit.close()
    assert nothing_left(model, optimizer, loss_fn)
    assert attributes == (set(vars(model)), {id(p): set(vars(p)) for p in model.parameters()})
    before = pit.get_output()
    train(model, optimizer, loss_fn, draw(4, 4))
    assert list(pit.get_output()) == list(before) == [0, 1, 2]


@pytest.mark.parametrize("where", ["after forward", "after backward"])
def test_close_in_the_middle_of_a_step(where: str) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    (x, y), *rest = draw(4, 4)
    pit = watch(model, optimizer, loss_fn)
    loss = loss_fn(model(x), y)
    if where == "after backward":
        loss.backward()
    pit.close()
    if where == "after forward":
        loss.backward()
    optimizer.step()
    train(model, optimizer, loss_fn, rest)
    assert nothing_left(model, optimizer, loss_fn)


def test_close_twice_and_after_the_block() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn) as pit:
        train(model, optimizer, loss_fn, draw(4, 4))
        pit.close()
        pit.close()
    pit.close()
    assert nothing_left(model, optimizer, loss_fn)
    assert list(pit.get_output()) == [0, 1]
    assert "closed" in repr(pit)


def test_a_watch_that_is_forgotten_goes_with_its_model() -> None:
    """A cell of a notebook run again: nobody calls close."""
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    pit = watch(model, optimizer, loss_fn)
    train(model, optimizer, loss_fn, draw(4, 4))
    alive = weakref.ref(model)
    del model, optimizer, pit
    gc.collect()
    try:
        assert alive() is None
        assert torch.autograd.backward is BACKWARD
    finally:
        tap._listeners.clear()
        torch.autograd.backward = BACKWARD
        tap._original = None


def switches() -> tuple[bool, ...]:
    cuda = torch.backends.cuda
    return (
        cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled(),
        torch.backends.cudnn.enabled, torch._C._get_mkldnn_enabled(),
    )  # fmt: skip


@pytest.fixture
def kept_switches() -> Iterator[tuple[bool, ...]]:
    """The switches as they are; put back whatever the test does."""
    before, cuda = switches(), torch.backends.cuda
    yield before
    setters = (cuda.enable_flash_sdp, cuda.enable_mem_efficient_sdp, cuda.enable_math_sdp, cuda.enable_cudnn_sdp)
    for enable, value in zip(setters, before[:4], strict=True):
        enable(value)
    torch._C._set_mkldnn_enabled(before[5])
    torch._C._set_cudnn_enabled(before[4])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(5, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x[None])[0][0])


@pytest.mark.parametrize("intervals", [(1,), (2,), (1, 1), (2, 3)])
def test_global_switches_are_put_back(kept_switches: tuple[bool, ...], intervals: tuple[int, ...]) -> None:
    """Second derivatives need plain kernels; whoever else trains gets the usual ones back."""
    loss_fn = nn.CrossEntropyLoss()
    models = [Recurrent().double() for _ in intervals]
    optimizers = [sgd(model) for model in models]
    together = list(zip(models, optimizers, intervals, strict=True))
    pits = [watch(m, o, loss_fn, ["HessMaxEV"], every=interval) for m, o, interval in together]
    for batch in draw(*[4] * 7):
        for model, optimizer, _ in together:
            train(model, optimizer, loss_fn, [batch])
    for pit in pits:
        pit.close()
    assert switches() == kept_switches


def test_switches_that_the_user_sets_around_the_loop_stay(kept_switches: tuple[bool, ...]) -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, ["HessMaxEV"], every=2), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        wanted = switches()
        for batch in draw(4, 4, 4):
            train(model, optimizer, loss_fn, [batch])
            assert switches()[0] == wanted[0]
            assert not switches()[1]
    assert switches() == kept_switches


# ---- the model can be copied and saved while it is watched


def test_copies_of_the_model_are_not_watched() -> None:
    """An average of the weights, or the best model so far: kept by a copy in the middle of a step."""
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer, batches = sgd(model), draw(4, 4)
    with watch(model, optimizer, loss_fn) as pit:
        for x, y in batches:
            optimizer.zero_grad()
            copies = [copy.deepcopy(model)]
            loss = loss_fn(model(x), y)
            copies.append(copy.deepcopy(model))
            loss.backward()
            copies.append(copy.deepcopy(model))
            optimizer.step()
            for other in copies:
                other(x)
                assert not any(isinstance(hook, Hook) for hook in other._forward_hooks.values())
    same(pit, watched(batches))


def test_the_model_can_be_saved_whole() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    (x, y), *_ = draw(4)
    with watch(model, optimizer, loss_fn):
        loss_fn(model(x), y).backward()
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        torch.save(optimizer, io.BytesIO())
    again = torch.load(file, weights_only=False)
    assert torch.equal(again(x), model(x))
    assert not any(isinstance(hook, Hook) for hook in again._forward_hooks.values())


# ---- switched off


def test_disabled_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_DISABLED", "1")
    model, loss_fn = net(), nn.CrossEntropyLoss(reduction="none")
    optimizer = sgd(model)
    with watch(model, optimizer) as pit:
        for x, y in draw(4, 5):
            assert nothing_left(model, optimizer)
            optimizer.zero_grad()
            losses = loss_fn(model(x), y)
            loss = pit.loss(losses)
            assert torch.equal(loss, losses.mean())
            loss.backward()
            optimizer.step()
        assert nothing_left(model, optimizer)
    assert pit.get_output() == {}
    assert isinstance(pit.explain(), str)


def test_zero_does_not_disable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCKPIT_DISABLED", "0")
    assert list(watched(draw(4)).get_output()) == [0]


# ---- when


def steps(**options: Any) -> list[int]:
    return list(watched(draw(*[4] * 12), **{"quantities": ["Loss", "GradNorm"], **options}).get_output())


def test_first_step_is_a_thousand() -> None:
    pit = watched(draw(4, 4, 4), step=1000)
    assert list(pit.get_output()) == [1000, 1001, 1002]
    assert set(pit.get_output()[1000]["Distance"].values()) == {0.0}
    assert pit.get_output()[1000]["Alpha"] is not None
    assert steps(step=1000, every=5) == [1000, 1005, 1010]


@pytest.mark.parametrize(
    ("every", "tracked"),
    [
        (1, [*range(12)]),
        (5, [0, 5, 10]),
        (linear(4, offset=1), [1, 5, 9]),
        (logarithmic(0, 1, steps=3), [0, 1, 3, 10]),
        (lambda step: step in (2, 3), [2, 3]),
        (lambda step: False, []),
    ],
)
def test_every(every: Any, tracked: list[int]) -> None:
    assert steps(every=every) == tracked


def test_a_quantity_with_a_schedule_of_its_own() -> None:
    pit = watched(draw(*[4] * 7), quantities=[GradNorm(track_schedule=linear(3)), "Loss", "Alpha"], every=2)
    found = {step: set(values) for step, values in pit.get_output().items()}
    assert found == {0: {"GradNorm", "Loss", "Alpha"}, 2: {"Loss", "Alpha"}, 3: {"GradNorm"}, 4: {"Loss", "Alpha"},
                     6: {"GradNorm", "Loss", "Alpha"}}  # fmt: skip


def test_a_schedule_is_asked_once_for_each_step() -> None:
    asked: list[int] = []
    watched(draw(4, 4, 4), quantities=[Loss(track_schedule=lambda step: asked.append(step) is None)], every=1)
    assert asked[:3] == [0, 1, 2]
    assert len(asked) <= 4


def test_within_the_grace_every_step_is_tracked() -> None:
    assert steps(every=None, budget=1e-6, grace=1000.0) == [*range(12)]


def test_without_grace_the_budget_is_kept() -> None:
    begin = time.perf_counter()
    pit = watched(draw(*[4] * 400), every=None, budget=0.05, grace=0.0)
    total = time.perf_counter() - begin
    tracked = pit.get_output()
    assert not tracked.keys() & {*range(5)}, "what a plain step takes must be known first"
    assert len(tracked) < 100
    spent = re.search(r"([\d.]+) s spent", pit.explain())
    assert spent is not None
    assert float(spent[1]) < 0.05 * total + 0.5
