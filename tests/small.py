"""A small perceptron, its batches, its training, and what its gradients really are: for tests of behaviour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.cases.models import mlp
from tests.reference import quantities as reference
from tests.reference.gradients import Named, gradient
from torch import Tensor, nn

import cockpit
from cockpit.tracking.watched import Watch

Batch = tuple[Tensor, Tensor]
IN, OUT = 5, 3
BACKWARD = torch.autograd.backward


def net(seed: int = 0) -> nn.Sequential:
    """A tanh perceptron in double precision, always the same one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return mlp(nn.Tanh).double()


def draw(*sizes: int, seed: int = 1) -> list[Batch]:
    """One seeded batch of each size."""
    g = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(n, IN, generator=g, dtype=torch.float64), torch.randint(OUT, (n,), generator=g)) for n in sizes
    ]


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=lr)


def train(model: nn.Module, optimizer: Any, loss_fn: Any, batches: Iterable[Batch]) -> None:
    """The plain loop."""
    for x, y in batches:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()


def watch(model: nn.Module, optimizer: Any, loss_fn: Any = None, quantities: Any = "economy", **options: Any) -> Watch:
    """Watch every step, in memory."""
    return cockpit.watch(model, optimizer, loss_fn, **{"quantities": quantities, "every": 1, "run": False, **options})


def watched(batches: Sequence[Batch], loop: Callable[..., None] = train, **options: Any) -> Watch:
    """The small net, trained by a loop and watched; returns the closed watch."""
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, **options) as pit:
        loop(model, optimizer, loss_fn, batches)
    return pit


# ---- what is true


def individual_gradients(model: nn.Module, losses: Callable[[nn.Module], Tensor]) -> Named:
    """g_n of the mean of ``losses(model)``, [B]: one backward pass for each entry."""
    rows = [gradient(model, partial(_entry, losses, n)) for n in range(len(losses(model)))]
    used = [name for name in rows[0] if rows[0][name] is not None]
    return {name: torch.stack([row[name] for row in rows]) for name in used}


def _entry(losses: Callable[[nn.Module], Tensor], n: int, model: nn.Module) -> Tensor:
    return losses(model)[n]


def cross_entropies(x: Tensor, y: Tensor) -> Callable[[nn.Module], Tensor]:
    """Individual losses of a batch, as a function of the model."""
    return lambda model: F.cross_entropy(model(x), y, reduction="none")


def expected(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Any]:
    """What a plain step from here must show; a twin is asked, so that nothing is seen of it."""
    return values(individual_gradients(twin(model), cross_entropies(x, y)))


def twin(model: nn.Module) -> nn.Module:
    """The small net with the same weights, and no hook."""
    other = net()
    other.load_state_dict(model.state_dict())
    return other


def values(g_n: Named) -> dict[str, Any]:
    """Quantities of individual gradients."""
    return {
        "GradNorm": reference.norms({name: g.mean(0) for name, g in g_n.items()}),
        "NormTest": reference.norm_test(g_n),
        "InnerTest": reference.inner_test(g_n),
        "OrthoTest": reference.ortho_test(g_n),
        "elements": sum(g.numel() for g in g_n.values()),
    }


def agrees(found: dict[str, Any], truth: dict[str, Any], rel: float = 1e-7) -> None:
    """Assert that one step's output is what it should be."""
    for name, value in truth.items():
        if name == "elements":
            assert found["GradHist1d"].counts.sum() == value
        else:
            assert found[name] is not None, f"{name} is undefined"
            assert found[name] == pytest.approx(value, rel=rel), name


def same(one: Watch, other: Watch, rel: float = 1e-9) -> None:
    """Assert that two runs have the same output, time aside."""
    first, second = one.get_output(), other.get_output()
    assert list(first) == list(second)
    for step, row in first.items():
        assert row.keys() == second[step].keys(), f"at {step}: {row.keys() ^ second[step].keys()}"
        for name, value in row.items():
            _same(value, second[step][name], rel, f"{name} at {step}")


def _same(one: Any, other: Any, rel: float, where: str) -> None:
    if where.startswith("Time"):
        return
    if hasattr(one, "counts"):
        assert (one.counts == other.counts).all(), where
    elif isinstance(one, dict):
        assert list(one.values()) == pytest.approx(list(other.values()), rel=rel, nan_ok=True), where
    elif one is None or other is None:
        assert one is other, where
    else:
        assert one == pytest.approx(other, rel=rel, nan_ok=True), where


def reasons(pit: Watch, name: str) -> list[str]:
    """Why a quantity was undefined."""
    return list(pit.history.reasons().get(name, {}))


# ---- what is attached


def hooks(*modules: nn.Module) -> int:
    """Hooks on modules and everything below them."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(m, kind)) for module in modules for m in module.modules() for kind in kinds)


def step_hooks(optimizer: torch.optim.Optimizer) -> int:
    """Hooks on an optimizer's step."""
    return len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)


def nothing_left(model: nn.Module, optimizer: torch.optim.Optimizer, *others: nn.Module) -> bool:
    """Whether no hook is on any of these, and torch's own functions are in place."""
    return hooks(model, *others) == 0 and step_hooks(optimizer) == 0 and torch.autograd.backward is BACKWARD


# ---- for modules of tests: import it
