"""``watch``: what is attached and when, what passes through, when it tracks, and what comes out."""

from __future__ import annotations

import copy
import io
import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.small import agrees, draw, expected, hooks, net, same, sgd, step_hooks, train, watch, watched
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from cockpit.core.errors import CockpitError
from cockpit.core.schedule import linear, logarithmic
from cockpit.quantities import GradNorm, Loss
from cockpit.quantities._base import SingleStepQuantity

BACKWARD = torch.autograd.backward
FULL = pytest.mark.parametrize("quantities", ["economy", "full"])


def nothing_left(model: nn.Module, optimizer: torch.optim.Optimizer, *others: nn.Module) -> bool:
    return hooks(model, *others) == 0 and step_hooks(optimizer) == 0 and torch.autograd.backward is BACKWARD


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
                assert hooks(other) == 0
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
    assert hooks(again) == 0


# ---- errors pass through


class Boom(Exception):
    """An error of the user's."""


class _Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, error: BaseException) -> Tensor:
        ctx.error = error
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None]:
        raise ctx.error


class Fragile(nn.Module):
    """A net that fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net()
        self.fails: tuple[str, BaseException] | None = None

    def forward(self, x: Tensor) -> Tensor:
        place, error = self.fails or ("", None)
        if place == "forward":
            raise error
        out = self.body[:3](x)
        if place == "backward":
            out = _Raises.apply(out, error)
        return self.body[3:](out)


class FragileLoss(nn.CrossEntropyLoss):
    error: BaseException | None = None

    def forward(self, *args: Tensor) -> Tensor:
        if self.error is not None:
            raise self.error
        return super().forward(*args)


def fail(model: Fragile, optimizer: Any, loss_fn: FragileLoss, batch: tuple[Tensor, Tensor], place: str, error: Any) -> None:
    """One step of a loop in which something goes wrong."""
    x, y = batch
    model.fails, loss_fn.error = (place, error), error if place == "loss" else None
    try:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        if place == "before step":
            raise error
        optimizer.step()
    finally:
        model.fails, loss_fn.error = None, None


every_place = pytest.mark.parametrize("place", ["forward", "loss", "backward", "before step"])
every_error = pytest.mark.parametrize("kind", [Boom, KeyboardInterrupt, RuntimeError])


@every_place
@every_error
@FULL
def test_an_error_passes_through_and_training_goes_on(place: str, kind: type[BaseException], quantities: str) -> None:
    model, loss_fn, batches = Fragile(), FragileLoss(), draw(4, 5, 6, 4)
    optimizer, error = sgd(model), kind("of mine", 7)
    with watch(model, optimizer, loss_fn, quantities) as pit:
        train(model, optimizer, loss_fn, batches[:1])
        with pytest.raises(kind) as caught:
            fail(model, optimizer, loss_fn, batches[1], place, error)
        truth = expected(model.body, *batches[2])
        train(model, optimizer, loss_fn, batches[2:])
    assert caught.value is error
    assert error.args == ("of mine", 7)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert nothing_left(model, optimizer, loss_fn)
    output = pit.get_output()
    assert list(output) == [0, 1, 2]
    truth["GradNorm"] = {f"body.{name}": value for name, value in truth["GradNorm"].items()}
    agrees(output[1], truth)
    plain = Fragile()
    train(plain, sgd(plain), loss_fn, [batches[0], *batches[2:]])
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), plain.parameters(), strict=True))


@every_place
@every_error
def test_an_error_that_leaves_the_block_leaves_nothing_behind(place: str, kind: type[BaseException]) -> None:
    model, loss_fn = Fragile(), FragileLoss()
    optimizer, error = sgd(model), kind("of mine")
    with pytest.raises(kind) as caught, watch(model, optimizer, loss_fn) as pit:
        train(model, optimizer, loss_fn, draw(4))
        fail(model, optimizer, loss_fn, draw(5)[0], place, error)
    assert caught.value is error
    assert error.__context__ is None
    assert nothing_left(model, optimizer, loss_fn)
    assert 0 in pit.get_output()


def test_a_quantity_that_fails_is_undefined_and_says_so() -> None:
    class Broken(SingleStepQuantity):
        def measure(self, step: Any) -> float:
            raise ZeroDivisionError("my own mistake")

    pit = watched(draw(4, 4), quantities=[Broken, "GradNorm"])
    assert [values["Broken"] for values in pit.get_output().values()] == [None, None]
    assert "my own mistake" in pit.explain()


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
    assert 0 in tracked
    assert 1 <= len(tracked) < 100
    spent = re.search(r"([\d.]+) s spent", pit.explain())
    assert spent is not None
    assert float(spent[1]) < 0.05 * total + 0.05


# ---- what comes out


def test_a_scalar_is_a_float_or_none() -> None:
    last = watched(draw(4, 4)).get_output()[1]
    assert isinstance(last["Loss"], float)
    assert isinstance(last["NormTest"], float)
    assert last["Alpha"] is None  # no step has followed


def test_a_value_per_parameter_is_in_the_order_of_the_model() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    model[2].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(reversed([p for p in model.parameters() if p.requires_grad]), lr=0.1)
    with watch(model, optimizer, loss_fn, "full") as pit:
        train(model, optimizer, loss_fn, draw(4))
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    for quantity in ("GradNorm", "UpdateSize", "Distance", "HessTrace"):
        value = pit.get_output()[0][quantity]
        assert list(value) == names
        assert {type(entry) for entry in value.values()} == {float}
    for quantity in ("GradHist1d", "GradHist2d"):
        assert list(pit.get_output()[0][quantity].parts) == names


@pytest.mark.parametrize(("name", "shape"), [("GradHist1d", (100,)), ("GradHist2d", (40, 50))])
def test_a_histogram_has_edges_counts_and_parts(name: str, shape: tuple[int, ...]) -> None:
    model = net()
    found = watched(draw(6), quantities=[name]).get_output()[0][name]
    assert isinstance(found.edges, tuple)
    assert tuple(len(axis) - 1 for axis in found.edges) == shape == found.counts.shape
    assert found.counts.dtype == np.int64
    assert list(found.parts) == [n for n, _ in model.named_parameters()]
    assert all(part.dtype == np.int64 and part.shape == shape for part in found.parts.values())
    assert (sum(found.parts.values()) == found.counts).all()
    for parameter, part in found.parts.items():
        assert part.sum() == 6 * model.get_parameter(parameter).numel()


def test_the_output_can_be_changed_without_harm() -> None:
    pit = watched(draw(4))
    pit.get_output()[0].clear()
    pit.get_output().clear()
    assert "Loss" in pit.get_output()[0]


def test_the_run_is_written_into_a_folder(tmp_path: Any) -> None:
    watched(draw(4, 4), run=tmp_path / "run")
    assert list((tmp_path / "run").iterdir())


# ---- the user's own numbers


def test_log_stands_beside_the_quantities() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, ["Loss"], every=2) as pit:
        pit.log(before=1)
        for epoch, batch in enumerate(draw(4, 4)):
            train(model, optimizer, loss_fn, [batch])
            pit.log(accuracy=epoch / 2, valid_loss=torch.tensor(2.5))
        pit.log(step=7, accuracy=0.75)
    output = pit.get_output()
    assert output[0]["before"] == 1.0
    assert [(step, output[step].get("accuracy")) for step in output] == [(0, 0.0), (1, 0.5), (7, 0.75)]
    assert output[1]["valid_loss"] == 2.5
    assert isinstance(output[0]["Loss"], float)


@pytest.mark.parametrize(
    "value", [3, 0.5, float("nan"), float("inf"), np.float64(0.5), np.float32(0.5), np.int64(3), torch.tensor([0.5])]
)
def test_log_takes_any_number(value: Any) -> None:
    pit = watched(draw(4))
    pit.log(mine=value)
    found = pit.get_output()[0]["mine"]
    assert found == pytest.approx(float(value), nan_ok=True)


@pytest.mark.parametrize("value", ["0.5", None, [0.5], torch.zeros(2), True, 1j, np.zeros(2)])
def test_log_refuses_what_is_no_number(value: Any) -> None:
    pit = watched(draw(4))
    with pytest.raises(CockpitError, match=r"mine.*number"):
        pit.log(mine=value)
    assert "mine" not in pit.get_output()[0]


def test_log_refuses_the_name_of_a_quantity() -> None:
    pit = watched(draw(4), quantities=["Loss"])
    with pytest.raises(CockpitError, match=r"GradNorm.*choose another"):
        pit.log(GradNorm=1.0)


@pytest.mark.parametrize("step", [-1, "x", 0.5, True])
def test_log_refuses_a_bad_step(step: Any) -> None:
    pit = watched(draw(4))
    with pytest.raises(CockpitError, match="step"):
        pit.log(step=step, mine=1.0)


# ---- explain


def test_explain_says_what_is_watched_and_what_it_costs() -> None:
    said = watched(draw(4, 4)).explain()
    for part in ("Sequential", "6 parameters", "steps 0 to 1", "NormTest", "cover all parameters", "ms"):
        assert part in said


def test_explain_before_the_first_step() -> None:
    model = net()
    with watch(model, sgd(model)) as pit:
        assert "no step tracked yet" in pit.explain()


def test_what_is_not_covered_is_named_with_its_share() -> None:
    """A parameter that no sample has to do with: a penalty alone moves it."""

    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.spare = net(), nn.Parameter(torch.ones(67, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x)

    model, loss_fn = Spare(), nn.CrossEntropyLoss()
    optimizer, (x, y) = sgd(model), draw(4)[0]
    truth = expected(model.body, x, y)
    with watch(model, optimizer, loss_fn) as pit:
        (loss_fn(model(x), y) + model.spare.square().sum()).backward()
        optimizer.step()
    assert "spare" in pit.explain()
    share = 100 * sum(p.numel() for p in model.body.parameters()) / sum(p.numel() for p in model.parameters())
    assert f"{share:.1f}%" in pit.explain()
    assert pit.get_output()[0]["NormTest"] == pytest.approx(truth["NormTest"])
    assert pit.get_output()[0]["GradNorm"]["spare"] == pytest.approx(2 * 67**0.5)


