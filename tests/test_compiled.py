"""Compiled models, wherever and whenever they are compiled: tracked steps are complete, the others stay compiled."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.small import watch
from torch import Tensor, nn

from cockpit.engine.autograd.allowance import Allowance
from cockpit.tracking.watched import Watch

Step = Callable[[Tensor, Tensor], Any]
Start = Callable[[nn.Module], Watch]
STEPS = 7
BACKEND = "aot_eager"
NAMES = ("Loss", "NormTest", "GradNorm", "GradHist1d", "UpdateSize", "InnerTest")
COMPILE = {"backend": BACKEND}


class Net(nn.Module):
    """Returns its output and, where it is given targets, its loss; it has a method that computes the loss alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
        out = self.second(torch.tanh(self.first(x)))
        return out if y is None else (out, F.cross_entropy(out, y))

    def training_step(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.second(torch.tanh(self.first(x))), y)


class Scalar(Net):
    """Returns nothing but its loss."""

    def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
        return super().forward(x, y)[1]


def wrapped_later(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    pit = start(model)
    compiled = torch.compile(model, **COMPILE)
    return pit, lambda x, y: compiled(x, y)[1].backward()


def wrapped_before(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    compiled = torch.compile(model, **COMPILE)
    return start(compiled), lambda x, y: compiled(x, y)[1].backward()


def wrapped_before_the_inner_one_is_watched(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    compiled = torch.compile(model, **COMPILE)
    return start(model), lambda x, y: compiled(x, y)[1].backward()


def in_place_before(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    model.compile(**COMPILE)
    return start(model), lambda x, y: model(x, y)[1].backward()


def in_place_later(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    pit = start(model)
    model.compile(**COMPILE)
    return pit, lambda x, y: model(x, y)[1].backward()


def a_part_in_place(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    pit = start(model)
    model.first.compile(**COMPILE)
    return pit, lambda x, y: model(x, y)[1].backward()


def a_scalar_loss(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    model.__class__ = Scalar
    pit = start(model)
    compiled = torch.compile(model, **COMPILE)
    return pit, lambda x, y: compiled(x, y).backward()


def the_loss_outside(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    loss_fn, pit = nn.CrossEntropyLoss(), start(model)
    compiled = torch.compile(model, **COMPILE)
    return pit, lambda x, y: loss_fn(compiled(x), y).backward()


def a_function_of_the_loss(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    pit = start(model)

    @torch.compile(**COMPILE)
    def loss(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x), y)

    return pit, lambda x, y: loss(x, y).backward()


def a_function_with_the_backward_pass(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    pit = start(model)

    @torch.compile(**COMPILE)
    def step(x: Tensor, y: Tensor) -> None:
        F.cross_entropy(model(x), y).backward()

    return pit, step


def another_method(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    pit = start(model)
    loss = torch.compile(model.training_step, **COMPILE)
    return pit, lambda x, y: loss(x, y).backward()


LOOPS = [
    wrapped_later,
    wrapped_before,
    wrapped_before_the_inner_one_is_watched,
    in_place_before,
    in_place_later,
    a_part_in_place,
    a_scalar_loss,
    the_loss_outside,
    a_function_of_the_loss,
    a_function_with_the_backward_pass,
    another_method,
]


def trained(loop: Callable[..., Any], **options: Any) -> Watch:
    torch._dynamo.reset()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Net().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if loop in (another_method, the_method_itself):
        options = {"batch_size": 8, **options}
    pit, step = loop(model, optimizer, lambda it: watch(it, optimizer, **options))
    generator = torch.Generator().manual_seed(1)
    with pit:
        for _ in range(STEPS):
            optimizer.zero_grad()
            step(
                torch.randn(8, 6, generator=generator, dtype=torch.float64),
                torch.randint(3, (8,), generator=generator),
            )
            optimizer.step()
    return pit


def plain(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    return start(model), lambda x, y: model(x, y)[1].backward()


def the_method_itself(model: Net, optimizer: Any, start: Start) -> tuple[Watch, Step]:
    return start(model), lambda x, y: model.training_step(x, y).backward()


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("loop", LOOPS)
def test_every_tracked_step_is_complete(loop: Any, every: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cockpit"):
        pit = trained(loop, every=every)
    found, truth = pit.get_output(), trained(plain, every=every).get_output()
    assert list(found) == list(range(0, STEPS, every))
    for step, row in found.items():
        for name in NAMES:
            assert row[name] is not None, f"{name} at {step}: {pit.history.reasons()[name]}"
        assert row["Loss"] == pytest.approx(truth[step]["Loss"], rel=1e-9)
        assert row["NormTest"] == pytest.approx(truth[step]["NormTest"], rel=1e-9)
        assert [*row["GradNorm"].values()] == pytest.approx([*truth[step]["GradNorm"].values()], rel=1e-9)
    assert pit.source().scalar("Loss").steps.tolist() == list(range(STEPS))
    assert np.isfinite(pit.source().scalar("Loss").values).all()
    assert len([record for record in caplog.records if record.name == "cockpit"]) <= 1
    if every > 1 or loop in (wrapped_before, in_place_before):
        assert "Compiled code runs eagerly on tracked steps; results are equal to rounding." in pit.explain()


def test_a_method_other_than_forward_needs_the_batch_size_alone() -> None:
    reason = "the batch size cannot be known (no call of the model was seen); give watch(..., batch_size=N)"
    pit = trained(the_method_itself, batch_size=None)
    assert list(pit.history.reasons()["NormTest"]) == [reason]
    assert all(row["NormTest"] is not None for row in trained(the_method_itself).get_output().values())


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_a_step_compiled_as_a_whole_and_none_of_our_code_in_it() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model, losses = nn.Linear(5, 3), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    with watch(model, optimizer, every=4) as pit:
        for _ in range(10):
            losses.append(step(torch.randn(4, 5)).item())
    assert list(pit.get_output()) == [0, 4, 8]
    assert all(row["NormTest"] is not None for row in pit.get_output().values())
    assert pit.source().scalar("Loss").values.tolist() == pytest.approx(losses)
    assert torch._dynamo.utils.counters["frames"]["total"] < 25  # 85 with ours


def test_the_users_stance_outlives_a_tracked_step() -> None:
    model = nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    frame = torch._dynamo.eval_frame
    with torch.compiler.set_stance("eager_on_recompile"), watch(model, optimizer, every=2):
        for _ in range(3):
            model(torch.randn(4, 5)).square().mean().backward()
            assert frame._stance.stance in ("force_eager", "eager_on_recompile")
            optimizer.step()
    assert frame._stance.stance == "default"
    with torch.compiler.set_stance("eager_on_recompile"):
        pit = watch(model, optimizer, every=2)
        assert frame._stance.stance == "force_eager"
    pit.close()
    assert frame._stance.stance == "default"


@pytest.mark.parametrize("told", [False, True])
def test_dropout_under_inductor_stays_compiled_unless_it_draws_as_eager_code(
    told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor import config

    monkeypatch.setitem(torch._dynamo.utils.counters, "inductor", {"calls": 1})  # as if it had compiled
    model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.compile(backend=BACKEND)
    with config.patch("fallback_random", told), watch(model, optimizer, every=1) as pit:
        for _ in range(3):
            model(torch.randn(4, 5)).square().mean().backward()
            optimizer.step()
        explained = pit.explain()
    seen = pit.get_output()[2]
    assert seen["GradNorm"] is not None
    assert (seen["NormTest"] is not None) == told
    assert ("stays compiled" in explained) == (not told)
    if not told:
        assert "fallback_random = True" in next(iter(pit.history.reasons()["NormTest"]))


def test_compiled_code_stays_compiled_where_the_device_lacks_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Allowance, "roomy", lambda self, like: False)
    pit = trained(in_place_before, every=1)
    assert "the device lacks the memory to run compiled code eagerly; use a smaller batch" in pit.explain()
    assert pit.get_output()[1]["GradNorm"] is not None
    assert all(row["NormTest"] is None for row in pit.get_output().values())
    assert trained(plain, every=1).get_output()[1]["NormTest"] is not None
