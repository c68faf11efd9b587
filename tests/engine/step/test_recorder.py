"""Which backward passes make a step, in loops that change their habits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import cockpit

PARTS = {"n": 8, "a": 4, "u": 3}  # samples of a backward pass: whole batches, accumulation, even and uneven


@pytest.mark.parametrize("pattern", ["c", "nc", "ac", "acc", "accnn", "uc", "nnan"])
def test_closures_and_accumulated_steps_in_turn(pattern: str) -> None:
    torch.manual_seed(0)
    model, loss_fn = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    start, away, moved = weights(model), [], []
    with cockpit.watch(model, optimizer, loss_fn, every=1, run=False) as pit:
        for step in range(8):
            x, y, kind = torch.randn(8, 6).double(), torch.randint(3, (8,)), pattern[step % len(pattern)]
            before = weights(model)
            away.append(float((before - start).norm()))

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                optimizer.zero_grad()
                loss: Tensor = loss_fn(model(x), y)
                loss.backward()
                return loss

            if kind == "c":
                optimizer.step(closure)
            else:
                optimizer.zero_grad()
                for a, b in zip(x.split(PARTS[kind]), y.split(PARTS[kind]), strict=True):
                    (loss_fn(model(a), b) * len(a) / 8).backward()
                optimizer.step()
            moved.append(float((weights(model) - before).norm()))
    for step, values in pit.get_output().items():
        assert length(values["Distance"]) == pytest.approx(away[step], abs=1e-12)
        assert length(values["UpdateSize"]) == pytest.approx(moved[step])
    undefined = {record.step for record in pit.history if record.reason and record.name == "NormTest"}
    assert undefined == ({2} if pattern == "nnan" else set())  # a second pass that nothing foretold costs one step
    assert {step for step, values in pit.get_output().items() if values["Alpha"] is None} == undefined | {
        step - 1 for step in undefined | {8}
    }


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def length(parts: dict[str, float]) -> float:
    return sum(part**2 for part in parts.values()) ** 0.5
