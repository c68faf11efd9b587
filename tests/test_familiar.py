"""A structure that is known is not asked again, and whatever changes beside it is seen: with and without a memory, the
same numbers.
"""

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
from cockpit.engine.autograd.structures import Structures
from cockpit.engine.step.backward import Backward

Records = dict[tuple[int, str], Record]
STEPS = 7
LATER = 4  # a step by which everything is familiar
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
    remember: bool,
    backward: Callable[..., None] = usual,
    size: Callable[[int], int] = lambda _: 7,
    quantities: list[str] = QUANTITIES,
) -> tuple[Records, int]:
    """Everything that was recorded, and how many graphs had to be asked."""
    torch.manual_seed(0)
    net, loss_fn = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5)
    asked = 0
    with cockpit.watch(net, optimizer, loss_fn, quantities=quantities, every=1, run=False) as pit:
        for step in range(STEPS):
            x, y = torch.randn(size(step), 2, 8, 8), torch.randint(4, (size(step),))
            optimizer.zero_grad()
            backward(net, optimizer, loss_fn, x, y, step)
            optimizer.step()
            settings = pit._tracker.settings
            if not remember:
                asked, settings.structures = asked + settings.structures.asked, Structures()
        asked += settings.structures.asked
    return {(record.step, record.name): record for record in pit.history}, asked


def agree(backward: Callable[..., None] = usual, **options: Any) -> Records:
    found, asked = trained(True, backward, **options)
    wanted, every = trained(False, backward, **options)
    assert asked < every == STEPS
    assert found.keys() == wanted.keys()
    for key, record in wanted.items():
        assert found[key].reason == record.reason, key
        if isinstance(record.value, float | dict) and key[1] != "Time":
            assert found[key].value == pytest.approx(record.value, rel=1e-4, abs=1e-7), key
        elif key[1] != "Time":
            assert found[key].value == record.value, key
    return found


@pytest.mark.parametrize("quantities", [QUANTITIES, CURVED])
def test_a_familiar_graph_gives_what_a_search_gives(quantities: list[str]) -> None:
    found = agree(quantities=quantities)
    assert all(record.value is not None for (step, _), record in found.items() if step < STEPS - 1)


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
def test_a_loss_that_changed_for_a_step(change: Any) -> None:
    """The graph looks the same."""

    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        if step == LATER:
            change(loss_fn, net(x), y)
        else:
            usual(net, optimizer, loss_fn, x, y, step)

    agree(backward, quantities=CURVED)


def test_a_batch_of_another_size() -> None:
    agree(size=lambda step: 5 if step == LATER else 7)


def test_a_convolution_that_reaches_further() -> None:
    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        net.spread = 2 if step >= LATER else 1  # the same shapes, the same operations
        usual(net, optimizer, loss_fn, x, y, step)

    agree(backward)


def test_a_forward_pass_that_is_recomputed() -> None:
    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        net.again = step == LATER
        usual(net, optimizer, loss_fn, x, y, step)

    found = agree(backward)
    assert found[LATER, "NormTest"].value is not None


def test_a_second_pass_over_a_familiar_graph_counts_the_same_samples() -> None:
    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        loss = loss_fn(net(x), y)
        loss.backward(retain_graph=step >= LATER)
        if step >= LATER:
            loss.backward()

    found = agree(backward)
    assert "second backward pass" in (found[LATER, "NormTest"].reason or "")  # a wrong guess is undefined once
    assert found[LATER + 1, "NormTest"].value is not None


def test_a_loss_that_is_changed_after_the_backward_pass_is_recorded_as_it_was() -> None:
    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        loss = loss_fn(net(x), y)
        loss.backward()
        loss.data.zero_()

    found = agree(backward)
    assert all(found[step, "Loss"].value > 0.1 for step in range(STEPS))


def test_no_hook_stays_on_a_graph_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ready: list[str] = []
    original = Backward._ready

    def counted(self: Backward, name: str, *rest: Any) -> None:
        ready.append(name)
        original(self, name, *rest)

    def backward(net: Net, optimizer: Any, loss_fn: Any, x: Tensor, y: Tensor, step: int) -> None:
        loss = loss_fn(net(x), y)
        loss.backward(retain_graph=True)
        assert len(ready) == 4
        torch.autograd.grad(loss, list(net.parameters()))
        assert len(ready) == 4
        ready.clear()

    monkeypatch.setattr(Backward, "_ready", counted)
    trained(True, backward)


def test_what_needs_no_single_samples_places_no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even to hear what reaches the loss: on a GPU each would be handed over to another thread."""
    placed, listen = list[int](), Backward.listen

    def counted(self: Backward, present: Any) -> None:
        listen(self, present)
        placed.append(len(self._handles))
        assert self._walk is None

    monkeypatch.setattr(Backward, "listen", counted)
    net, loss_fn = nn.Linear(6, 3), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    with cockpit.watch(net, optimizer, loss_fn, quantities=["Loss", "Time", "GradNorm"], every=1, run=False) as pit:
        for _ in range(3):
            optimizer.zero_grad()
            loss_fn(net(torch.randn(7, 6)), torch.randint(3, (7,))).backward()
            optimizer.step()
    assert placed == [0, 0, 0]
    assert len(pit.history.series("GradNorm")) == 3
