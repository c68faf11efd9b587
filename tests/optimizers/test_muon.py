"""Muon: matrices by torch's, everything else by AdamW."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from cockpit.optimizers import KNOWN, RULES, find
from cockpit.optimizers.wrapper import build


def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 5), nn.Linear(5, 3, bias=False))


def trained(model: nn.Module, optimizers: list[torch.optim.Optimizer], steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        model.zero_grad()
        model(torch.randn(6, 1, 4, 4, generator=generator)).square().sum().backward()
        for optimizer in optimizers:
            optimizer.step()


def weights(model: nn.Module) -> list[Tensor]:
    return [parameter.detach() for parameter in model.parameters()]


def test_each_parameter_goes_where_it_belongs() -> None:
    ours, theirs = net(), net()
    matrices = [one for one in theirs.parameters() if one.ndim == 2]
    others = [one for one in theirs.parameters() if one.ndim != 2]
    assert (len(matrices), len(others)) == (2, 3)
    parts = [
        torch.optim.Muon(matrices, lr=0.02, weight_decay=0.3, momentum=0.9, adjust_lr_fn="match_rms_adamw"),
        build(others, "AdamW", lr=0.02, weight_decay=0.3, beta2=0.95),
    ]
    trained(theirs, parts, range(6))
    trained(ours, [build(ours.parameters(), "muon", lr=0.02, weight_decay=0.3, momentum=0.9)], range(6))
    assert all(map(torch.equal, weights(ours), weights(theirs)))


def test_the_formula() -> None:
    """What a matrix moves by has singular values of about 1, in the directions of the gradient's."""
    parameter = nn.Parameter(torch.zeros(16, 8))
    parameter.grad = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    build([parameter], "Muon", lr=0.1).step()
    moved = -parameter.detach().double() / (0.1 * 0.2 * math.sqrt(16))
    left, _, right = torch.linalg.svd(parameter.grad.double(), full_matrices=False)
    values = torch.diagonal(left.T @ moved @ right.T)
    assert 0.6 < float(values.min()) < float(values.max()) < 1.25
    assert torch.allclose(left.T @ moved @ right.T, torch.diag(values), atol=0.05)


def test_a_stopped_one_goes_on() -> None:
    whole, part = net(), net()
    trained(whole, [build(whole.parameters(), "Muon")], range(9))
    first = build(part.parameters(), "Muon")
    trained(part, [first], range(4))
    second = build(part.parameters(), "Muon", lr=7.0)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    trained(part, [second], range(4, 9))
    assert all(map(torch.equal, weights(whole), weights(part)))


def test_a_scheduler_sets_the_rate_of_all_and_groups_stay_apart() -> None:
    model = net()
    optimizer = build(
        [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}], "Muon", lr=0.25
    )
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    before = [one.clone() for one in weights(model)]
    trained(model, [optimizer], range(1))
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.125, 0.125]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    after = [one.clone() for one in weights(model)]
    trained(model, [optimizer], range(1))
    assert all(map(torch.equal, weights(model), after))
    assert [torch.equal(a, b) for a, b in zip(before, after, strict=True)] == [False] * 4 + [True]


def test_it_is_known_but_no_rule() -> None:
    known = find("muon")
    assert known is KNOWN["Muon"]
    assert "Muon" not in RULES
    assert known.space.keys() <= known.defaults.keys()
    with pytest.raises(ValueError, match="unknown hyperparameter of Muon 'nesterov'"):
        build(net().parameters(), "Muon", nesterov=True)
