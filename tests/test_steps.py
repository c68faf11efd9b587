"""Where a step begins and ends: optimizers inside optimizers, two evaluations a step, steps inside backward()."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.small import agrees, draw, expected, net, reasons, sgd, twin, watch
from torch import Tensor, nn

from cockpit.engine.step.recorder import BY_HAND, INSIDE
from cockpit.tracking.roster import may_nest
from cockpit.tracking.watched import Watch

STEPS = 5
SINGLE = ("NormTest", "InnerTest", "OrthoTest", "GradNorm")


class Sharp(torch.optim.Optimizer):
    """Looks for sharpness: the gradient is taken where the loss is higher, the step where it began."""

    def __init__(self, params: Any, base: type[torch.optim.Optimizer], **options: Any) -> None:
        super().__init__(params, {"lr": 0.1})
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        for p in self.param_groups[0]["params"]:
            self.state[p]["old"] = p.data.clone()
            p.add_(p.grad, alpha=0.5)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        for p in self.param_groups[0]["params"]:
            p.data = self.state[p]["old"]
        self.base_optimizer.step()
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure: Any) -> None:
        self.first_step()
        torch.enable_grad()(closure)()
        self.second_step()


class Under(torch.optim.SGD):
    """A subclass that leaves the step to the class above, which has hooks of its own."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


def two_calls(optimizer: Any, loss_of: Callable[[], Tensor]) -> None:
    loss_of().backward()
    optimizer.first_step()
    loss_of().backward()
    optimizer.second_step()


def a_closure(optimizer: Any, loss_of: Callable[[], Tensor]) -> None:
    loss_of().backward()
    optimizer.step(lambda: loss_of().backward())


def by_hand(optimizer: Any, loss_of: Callable[[], Tensor]) -> None:
    """Without a class for it."""
    parameters = optimizer.param_groups[0]["params"]
    optimizer.zero_grad()
    loss_of().backward()
    away = [0.5 * p.grad for p in parameters]
    with torch.no_grad():
        torch._foreach_add_(parameters, away)
    optimizer.zero_grad()
    loss_of().backward()
    with torch.no_grad():
        torch._foreach_sub_(parameters, away)
    optimizer.step()


def plainly(optimizer: Any, loss_of: Callable[[], Tensor]) -> None:
    optimizer.zero_grad()
    loss_of().backward()
    optimizer.step()


def sharp(model: nn.Module) -> torch.optim.Optimizer:
    return Sharp(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)


def under(model: nn.Module) -> torch.optim.Optimizer:
    sgd(model)  # torch now calls hooks around the step of the class above, too
    return Under(model.parameters(), lr=0.1)


LOOPS = {
    "two calls": (sharp, two_calls),
    "a closure": (sharp, a_closure),
    "by hand": (sgd, by_hand),
    "a class above": (under, plainly),
}


@pytest.mark.parametrize(("make", "loop"), LOOPS.values(), ids=LOOPS.keys())
@pytest.mark.parametrize("every", [1, 2])
def test_a_step_is_what_the_weights_show(make: Any, loop: Any, every: int) -> None:
    """Values where the step began, the whole update, and as many steps as were taken."""
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer, truth, moved, far, losses = make(model), [], [], [], []
    start = flat(model)
    with watch(model, optimizer, loss_fn, every=every) as pit:
        for x, y in draw(*[6] * STEPS):
            before = flat(model)
            truth.append(expected(model, x, y))
            losses.append(loss_fn(twin(model)(x), y).item())
            loop(optimizer, lambda x=x, y=y: loss_fn(model(x), y))
            moved.append(float((flat(model) - before).norm()))
            far.append(float((before - start).norm()))
        assert pit.step == STEPS
    rows = pit.get_output()
    curve = pit.source().scalar("Loss")
    assert curve.steps.tolist() == list(range(STEPS))
    assert curve.values.tolist() == pytest.approx(losses)
    assert list(rows) == list(range(0, STEPS, every))
    for step, row in rows.items():
        agrees(row, truth[step])
        assert length(row["UpdateSize"]) == pytest.approx(moved[step])
        assert length(row["Distance"]) == pytest.approx(far[step])
    assert reasons(pit, "Alpha") in ([], ["no further step was taken"])


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def length(parts: dict[str, float]) -> float:
    return float(sum(part * part for part in parts.values()) ** 0.5)


def test_an_error_in_a_step_does_not_swallow_the_next_one() -> None:
    model, loss_fn, (x, y) = net(), nn.CrossEntropyLoss(), draw(6)[0]
    optimizer = sharp(model)

    def fails() -> Tensor:
        raise KeyError("mine")

    with watch(model, optimizer, loss_fn) as pit:
        loss_fn(model(x), y).backward()
        with pytest.raises(KeyError):
            optimizer.step(fails)
        for _ in range(3):
            two_calls(optimizer, lambda: loss_fn(model(x), y))
    assert pit.step == 3


def test_an_optimizer_that_never_steps_is_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    model, loss_fn, (x, y) = net(), nn.CrossEntropyLoss(), draw(6)[0]
    watched, other = sgd(model), sgd(model)
    with caplog.at_level(logging.WARNING, "cockpit"), watch(model, watched, loss_fn) as pit:
        for _ in range(20):
            plainly(other, lambda: loss_fn(model(x), y))
        assert "watch the one whose step() is called" in pit.explain()
    assert caplog.text.count("never steps") == 1


# ---- gradients that are gone, or came otherwise


def inside(model: nn.Module) -> list[torch.optim.Optimizer]:
    """An optimizer for each parameter steps as soon as its gradient is there."""
    each = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(p: Tensor) -> None:
        each[p].step()
        each[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    return list(each.values())


def trained(model: nn.Module, optimizer: Any, loop: Callable[[Tensor], None]) -> tuple[Watch, list[float], list[float]]:
    loss_fn, losses, far, start = nn.CrossEntropyLoss(), list[float](), list[float](), flat(model)
    with watch(model, optimizer, loss_fn) as pit:
        for x, y in draw(*[6] * STEPS):
            loss = loss_fn(model(x), y)
            losses.append(float(loss.detach()))
            far.append(float((flat(model) - start).norm()))
            loop(loss)
    return pit, losses, far


def test_steps_inside_the_backward_pass() -> None:
    model = net()
    pit, losses, far = trained(model, inside(model), lambda loss: loss.backward())
    for (step, row), loss, distance in zip(pit.get_output().items(), losses, far, strict=True):
        assert row["Loss"] == pytest.approx(loss), step
        assert length(row["Distance"]) == pytest.approx(distance)
        assert row["Time"] > 0
        assert length(row["UpdateSize"]) > 0
    assert all(reasons(pit, name) == [INSIDE] for name in SINGLE)
    assert reasons(pit, "Alpha") == [INSIDE, "no further step was taken"]


def test_gradients_that_are_assigned() -> None:
    model = net()
    optimizer = sgd(model)

    def assign(loss: Tensor) -> None:
        parameters = list(model.parameters())
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.grad = g
        optimizer.step()

    pit, _, far = trained(model, optimizer, assign)
    for row, distance in zip(pit.get_output().values(), far, strict=True):
        assert length(row["Distance"]) == pytest.approx(distance)
        assert row["Time"] > 0
        assert length(row["UpdateSize"]) > 0
    assert all(reasons(pit, name) == [BY_HAND] for name in (*SINGLE, "Loss"))


def test_usual_optimizers_are_not_searched_for_steps_inside_steps() -> None:
    for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam, torch.optim.RMSprop):
        assert not may_nest([kind(net().parameters(), lr=0.1)])
    assert may_nest([under(net())])


def test_a_step_in_which_every_parameter_is_frozen_says_that_none_was_taken() -> None:
    model, loss_fn = nn.Linear(4, 3), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, loss_fn, every=1) as pit:
        for step in range(5):
            for parameter in model.parameters():
                parameter.requires_grad_(step not in (2, 3))
            loss = loss_fn(model(torch.randn(5, 4)), torch.randint(3, (5,)))
            optimizer.zero_grad()
            if loss.requires_grad:
                loss.backward()
            optimizer.step()
    assert "the optimizer took no step" in pit.history.reasons()["UpdateSize"]
    assert pit.get_output()[4]["NormTest"] is not None
