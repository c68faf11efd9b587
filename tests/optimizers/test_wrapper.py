"""Rules as torch's optimizers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tests.optimizers.test_rules import drawn, gradients, trained
from torch import nn

from cockpit.core.errors import CockpitError
from cockpit.optimizers import RULES
from cockpit.optimizers.ruled import RuleOptimizer
from cockpit.optimizers.wrapper import LIMITS, build


def stepped(optimizer: torch.optim.Optimizer, parameter: nn.Parameter, seen: torch.Tensor) -> None:
    for gradient in seen:
        parameter.grad = gradient.clone()
        optimizer.step()


@pytest.mark.parametrize("name", RULES)
def test_the_optimizer_is_the_rule(name: str) -> None:
    rule = RULES[name]
    _, settings = drawn(rule, 2)
    seen = gradients(1)
    parameter = nn.Parameter(torch.ones(7, dtype=torch.float64))
    stepped(build([parameter], name, **settings), parameter, seen[:, 0])
    assert torch.equal(parameter.detach(), trained(rule, [settings], seen)[-1, 0])


@pytest.mark.parametrize("name", RULES)
def test_a_stopped_one_goes_on(name: str) -> None:
    seen = gradients(1)[:, 0]
    whole, part, rest = (nn.Parameter(torch.ones(7, dtype=torch.float64)) for _ in range(3))
    stepped(build([whole], name), whole, seen)
    first = build([part], name)
    stepped(first, part, seen[:13])
    rest.data.copy_(part.data)
    second = build([rest], name, lr=0.7)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    stepped(second, rest, seen[13:])
    assert torch.equal(whole, rest)
    assert type(second).__name__ == name


def test_groups_shapes_and_what_has_no_gradient() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3))
    still = nn.Parameter(torch.ones(2))
    groups: list[dict[str, Any]] = [
        {"params": net[0].parameters(), "lr": 0.5},
        {"params": [*net[2].parameters(), still]},
    ]
    optimizer = build(groups, "SGD", lr=0.1)
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    net(torch.ones(1, 1, 4, 4)).sum().backward()
    optimizer.step()
    for name, value in net.named_parameters():
        assert value.grad is not None
        rate = 0.5 if name.startswith("0") else 0.1
        assert torch.equal(value.detach(), before[name] - rate * value.grad)
    assert torch.equal(still, torch.ones(2))


def test_a_scheduler_sets_the_rate() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = build([parameter], "SGD", lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(3):
        parameter.grad = torch.ones(1)
        optimizer.step()
        scheduler.step()
    assert parameter.item() == -1.75


def test_a_closure() -> None:
    parameter = nn.Parameter(torch.ones(1))
    optimizer = build([parameter], "SGD", lr=0.25)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1.0
    assert parameter.item() == 0.5


def test_every_hyperparameter_has_limits() -> None:
    assert {name for rule in RULES.values() for name in rule.defaults} == LIMITS.keys()
    assert all(
        LIMITS[name][0] <= value <= LIMITS[name][1] for r in RULES.values() for name, value in r.defaults.items()
    )


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("Adan", {}, "unknown rule 'Adan'; did you mean 'Adam'"),
        ("Adam", {"beta": 0.9}, "unknown hyperparameter of Adam 'beta'"),
        ("Adam", {"beta2": 1.0}, r"Adam: beta2 is 1\.0; give a number from 0 to below 1"),
        ("SGD", {"lr": -1.0}, "that is 0 or more"),
        ("SGD", {"lr": float("inf")}, "lr is inf"),
        ("AdaBound", {"gamma": 0}, "gamma is 0; give a number above 0"),
        ("LA(RAdam)", {"k": 0}, "that is whole and 1 or more"),
        ("LA(RAdam)", {"slow": 1.5}, "between 0 and 1"),
    ],
)
def test_wrong_input(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CockpitError, match=message):
        build([nn.Parameter(torch.zeros(1))], name, **settings)


def test_sparse_gradients() -> None:
    table = nn.Embedding(4, 2, sparse=True)
    optimizer: RuleOptimizer = build(table.parameters(), "Adam")
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="Adam takes dense gradients"):
        optimizer.step()


def test_adamw_is_torchs() -> None:
    seen = gradients(1)[:, 0]
    ours, torchs = (nn.Parameter(torch.ones(7, dtype=torch.float64)) for _ in range(2))
    settings = {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-3}
    stepped(build([ours], "AdamW", **settings), ours, seen)
    stepped(torch.optim.AdamW([torchs], foreach=False, **settings), torchs, seen)
    assert torch.allclose(ours, torchs, rtol=1e-12, atol=1e-14)


def test_what_is_judged_elsewhere() -> None:
    seen = gradients(1)[:, 0]
    trained, judged = (nn.Parameter(torch.ones(7, dtype=torch.float64)) for _ in range(2))
    stepped(build([trained], "ScheduleFreeAdamW"), trained, seen)
    optimizer = build([judged], "ScheduleFreeAdamW")
    stepped(optimizer, judged, seen[:9])
    optimizer.eval()
    optimizer.eval()
    x = judged.detach().clone()
    with pytest.raises(RuntimeError, match="call train"):
        optimizer.step()
    # a state that was kept while it was judged goes on in that mode
    copy_of = nn.Parameter(judged.detach().clone())
    other = build([copy_of], "ScheduleFreeAdamW")
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one, parameter in ((optimizer, judged), (other, copy_of)):
        assert torch.equal(parameter, x)
        one.train()
        assert not torch.equal(parameter, x)
        stepped(one, parameter, seen[9:])
        assert torch.equal(parameter, trained)
