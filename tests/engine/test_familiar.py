"""A familiar graph is not searched again, and whatever changes in it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import cockpit
from cockpit.core.record import Record
from cockpit.engine import recorder
from cockpit.engine.autograd.graph import Graph
from cockpit.engine.backward_pass import BackwardPass
from cockpit.engine.familiar import FamiliarPass

Records = dict[tuple[int, str], Record]
STEPS = 12
LATER = 8  # a step by which everything is familiar
QUANTITIES = ["Loss", "GradNorm", "UpdateSize", "Alpha", "NormTest", "OrthoTest", "GradHist1d", "GradHist2d"]
CURVED = [*QUANTITIES, "HessTrace", "TICDiag"]


class Net(nn.Module):
    """What it does can be changed without a change to what it looks like."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(2, 3, 3), nn.Linear(3 * 36, 4)
        self.spread, self.again = 1, False

    def forward(self, x: Tensor) -> Tensor:
        stretch = self.spread
        seen = F.conv2d(x, self.conv.weight, self.conv.bias, padding=stretch - 1, dilation=stretch)
        if self.again:
            return checkpoint(self._end, seen, use_reentrant=False)  # type: ignore[no-any-return]
        return self._end(seen)

    def _end(self, seen: Tensor) -> Tensor:
        return self.head(torch.relu(seen).flatten(1))  # type: ignore[no-any-return]


def usual(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
    loss_fn(net(x), y).backward()


def trained(
    replay: str,
    monkeypatch: pytest.MonkeyPatch,
    backward: Callable[..., None] = usual,
    size: Callable[[int], int] = lambda _: 7,
    quantities: list[str] = QUANTITIES,
) -> tuple[Records, list[int]]:
    """Everything that was recorded, and the steps at which the graph was familiar."""
    monkeypatch.setenv("COCKPIT_REPLAY", replay)
    torch.manual_seed(0)
    net, loss_fn = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5)
    familiar: list[int] = []

    class Counted(FamiliarPass):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            familiar.append(pit.step)

    monkeypatch.setattr(recorder, "FamiliarPass", Counted)
    with cockpit.watch(net, optimizer, loss_fn, quantities=quantities, every=1, run=False) as pit:
        if replay == "1":
            pit._tracker.settings.programs.replayer = lambda function, device: function
        for step in range(STEPS):
            x, y = torch.randn(size(step), 2, 8, 8), torch.randint(4, (size(step),))
            optimizer.zero_grad()
            backward(net, optimizer, loss_fn, x, y, step)
            optimizer.step()
    return {(record.step, record.name): record for record in pit.history}, familiar


def agree(found: Records, wanted: Records) -> None:
    assert found.keys() == wanted.keys()
    for key, record in wanted.items():
        assert found[key].reason == record.reason, key
        if isinstance(record.value, float | dict):
            assert found[key].value == pytest.approx(record.value, rel=1e-4, abs=1e-7), key
        else:
            assert found[key].value == record.value, key


@pytest.mark.parametrize("quantities", [QUANTITIES, CURVED])
def test_a_familiar_graph_gives_what_a_search_gives(quantities: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, none = trained("0", monkeypatch, quantities=quantities)
    found, familiar = trained("1", monkeypatch, quantities=quantities)
    assert none == []
    assert familiar[-5:] == list(range(STEPS - 5, STEPS))
    agree(found, wanted)


def weighed(loss_fn: Any, outputs: Tensor, labels: Tensor) -> None:
    loss_fn.weight = torch.arange(1.0, 5)
    loss_fn(outputs, labels).backward()
    loss_fn.weight = None


def passed_over(loss_fn: Any, outputs: Tensor, labels: Tensor) -> None:
    loss_fn.ignore_index = int(labels[0])
    loss_fn(outputs, labels).backward()
    loss_fn.ignore_index = -100


def scaled(loss_fn: Any, outputs: Tensor, labels: Tensor) -> None:
    loss_fn(outputs, labels).backward(torch.tensor(3.0))


@pytest.mark.parametrize("change", [weighed, passed_over, scaled])
def test_curvature_of_a_loss_that_changed_for_a_step(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph looks the same."""

    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        if step == LATER:
            change(loss_fn, net(x), y)
        else:
            usual(net, optimizer, loss_fn, x, y, step)

    found, familiar = trained("1", monkeypatch, backward, quantities=CURVED)
    assert {LATER - 1, LATER + 1} <= set(familiar)
    agree(found, trained("0", monkeypatch, backward, quantities=CURVED)[0])


def test_a_batch_of_another_size_is_another_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def size(step: int) -> int:
        return 5 if step == LATER else 7

    for quantities in (QUANTITIES, CURVED):
        found, familiar = trained("1", monkeypatch, size=size, quantities=quantities)
        assert LATER not in familiar
        assert LATER + 1 in familiar
        agree(found, trained("0", monkeypatch, size=size, quantities=quantities)[0])


def test_a_convolution_that_reaches_further_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        net.spread = 2 if step >= LATER else 1  # the same shapes, the same operations
        usual(net, optimizer, loss_fn, x, y, step)

    found, familiar = trained("1", monkeypatch, backward)
    assert LATER - 1 in familiar
    assert LATER not in familiar
    missing = {name for (step, name), record in found.items() if step == LATER and record.value is None}
    assert "NormTest" in missing  # that step is lost, and says so; none is wrong
    wanted, _ = trained("0", monkeypatch, backward)
    after = {key for key in wanted if key[0] > LATER + 1}
    agree({key: found[key] for key in after}, {key: wanted[key] for key in after})


def test_recomputing_the_forward_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        net.again = step == LATER
        usual(net, optimizer, loss_fn, x, y, step)

    found, familiar = trained("1", monkeypatch, backward)
    assert LATER not in familiar
    assert "recomputes the forward pass" in (found[LATER, "NormTest"].reason or "")
    agree(found, trained("0", monkeypatch, backward)[0])


def test_a_second_pass_over_a_familiar_graph_counts_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        loss = loss_fn(net(x), y)
        loss.backward(retain_graph=step == LATER)
        if step == LATER:
            loss.backward()

    found, familiar = trained("1", monkeypatch, backward)
    assert LATER in familiar
    agree(found, trained("0", monkeypatch, backward)[0])


def test_a_loss_that_is_changed_after_the_backward_pass_is_recorded_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        loss = loss_fn(net(x), y)
        loss.backward()
        loss.data.zero_()

    found, familiar = trained("1", monkeypatch, backward)
    assert LATER in familiar
    agree(found, trained("0", monkeypatch)[0])


def test_no_hook_stays_on_a_graph_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[FamiliarPass] = []
    listen = FamiliarPass.listen

    def listening(self: FamiliarPass) -> None:
        passes.append(self)
        listen(self)

    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        loss = loss_fn(net(x), y)
        loss.backward(retain_graph=True)
        if passes:
            assert passes[-1]._grads
            passes[-1]._grads.clear()
            torch.autograd.grad(loss, list(net.parameters()))
            assert passes[-1]._grads == {}

    monkeypatch.setattr(FamiliarPass, "listen", listening)
    trained("1", monkeypatch, backward)
    assert passes


@pytest.mark.parametrize(("preset", "alone"), [("economy", True), ("business", True), ("full", True), ("Time", False)])
def test_autograd_runs_on_this_thread_where_tensors_are_collected(
    preset: str, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one GPU, once the structure is known; hooks would be handed over to the device's thread and back."""
    monkeypatch.setattr(Graph, "on_one_gpu", lambda self: True)
    monkeypatch.setenv("COCKPIT_REPLAY", "1")
    torch.manual_seed(0)
    net, loss_fn = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), nn.CrossEntropyLoss()
    optimizer, elsewhere = torch.optim.SGD(net.parameters(), lr=0.05), list[bool]()
    quantities = preset if preset != "Time" else [preset]
    with cockpit.watch(net, optimizer, loss_fn, quantities=quantities, every=1, run=False) as pit:
        pit._tracker.settings.programs.replayer = lambda function, device: function
        for _ in range(STEPS):
            optimizer.zero_grad()
            hidden = net[:2](torch.randn(7, 6))
            hidden.register_hook(lambda grad: elsewhere.append(torch._C._is_multithreading_enabled()))
            loss_fn(net[2](hidden), torch.randint(3, (7,))).backward()
            optimizer.step()
    assert elsewhere[0]
    assert elsewhere[-1] != alone
    assert torch._C._is_multithreading_enabled()


def test_what_needs_no_single_samples_places_no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even to hear what reaches the loss: on a GPU each would be handed over to another thread."""
    placed, listen = list[int](), BackwardPass.listen

    def counted(self: BackwardPass) -> None:
        listen(self)
        placed.append(len(self._handles))

    monkeypatch.setattr(BackwardPass, "listen", counted)
    net, loss_fn = nn.Linear(6, 3), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    with cockpit.watch(net, optimizer, loss_fn, quantities=["Loss", "Time", "GradNorm"], every=1, run=False) as pit:
        for _ in range(3):
            optimizer.zero_grad()
            loss_fn(net(torch.randn(7, 6)), torch.randint(3, (7,))).backward()
            optimizer.step()
    assert placed == [0, 0, 0]
    assert len(pit.history.series("GradNorm")) == 3
