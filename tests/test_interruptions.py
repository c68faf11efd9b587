"""An error or Ctrl-C in the loop passes through untouched, and training can go on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.small import (
    agrees,
    draw,
    expected,
    net,
    nothing_left,
    sgd,
    train,
    watch,
    watched,
)
from torch import Tensor, nn

from cockpit.quantities._base import SingleStepQuantity

FULL = pytest.mark.parametrize("quantities", ["economy", "full"])


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


def fail(
    model: Fragile, optimizer: Any, loss_fn: FragileLoss, batch: tuple[Tensor, Tensor], place: str, error: Any
) -> None:
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
    pit = watch(model, optimizer, loss_fn)
    train(model, optimizer, loss_fn, draw(4))
    with pytest.raises(kind) as caught, pit:
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
