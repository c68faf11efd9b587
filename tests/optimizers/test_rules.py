"""Each rule against its formula, number by number; runs side by side are those of each alone, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.optimizers.reference import path, schedule_free
from torch import Tensor

from cockpit.optimizers import RULES, STUDY, find
from cockpit.optimizers.each import Each
from cockpit.optimizers.rule import Rule

STEPS, WIDTH = 30, 7
VARIED = {
    "lr": (1e-3, 0.3),
    "momentum": (0.3, 0.999),
    "alpha": (0.5, 0.99),
    "rho": (0.5, 0.99),
    "beta1": (0.5, 0.95),
    "beta2": (0.55, 0.9999),  # at 0.6 and below the variance is never tractable
    "eps": (1e-10, 1e-2),
    "weight_decay": (0.0, 0.5),
    "final_lr": (1e-3, 0.5),
    "gamma": (1e-3, 0.5),
    "slow": (0.1, 1.0),
    "k": (1, 8),
}


def drawn(rule: Rule, runs: int, seed: int = 0) -> list[dict[str, Any]]:
    """Hyperparameters of some runs; the first has the defaults."""
    random = np.random.default_rng(seed)
    found: list[dict[str, Any]] = [dict(rule.defaults)]
    for _ in range(runs - 1):
        one = {name: float(random.uniform(*VARIED[name])) for name in rule.defaults}
        found.append({name: round(value) if name == "k" else value for name, value in one.items()})
    return found


def gradients(runs: int, seed: int = 1) -> Tensor:
    """[steps, runs, width]; some are zero, some large."""
    generator = torch.Generator().manual_seed(seed)
    scale = 10.0 ** torch.randint(-3, 3, (STEPS, runs, WIDTH), generator=generator)
    found = torch.randn(STEPS, runs, WIDTH, generator=generator, dtype=torch.float64) * scale
    found[:, :, 0] = 0
    return found


def trained(rule: Rule, settings: list[dict[str, Any]], seen: Tensor) -> Tensor:
    """Parameters of runs side by side after each step, [steps, runs, width]."""
    theta = torch.ones_like(seen[0])
    columns = {name: Each([one[name] for one in settings]) for name in rule.defaults}
    state, found = rule.init(theta), []
    for t, gradient in enumerate(seen, 1):
        theta, state = rule.update(theta, gradient, state, t, **columns)
        found.append(theta)
    return torch.stack(found)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_its_formula(name: str) -> None:
    settings = drawn(RULES[name], 6)
    seen = gradients(len(settings))
    found = trained(RULES[name], settings, seen).numpy()
    for run, one in enumerate(settings):
        for place in range(WIDTH):
            expected = path(name, 1.0, seen[:, run, place].tolist(), **one)
            np.testing.assert_allclose(found[:, run, place], expected, rtol=1e-11, atol=1e-13)


def test_what_schedule_free_is_judged_by() -> None:
    rule = RULES["ScheduleFreeAdamW"]
    settings, seen = drawn(rule, 3), gradients(3)
    columns = {name: Each([one[name] for one in settings]) for name in rule.defaults}
    theta = torch.ones_like(seen[0])
    state, found = rule.init(theta), []
    for t, gradient in enumerate(seen, 1):
        theta, state = rule.update(theta, gradient, state, t, **columns)
        found.append(state["x"])
    for run, one in enumerate(settings):
        for place in range(WIDTH):
            expected = list(schedule_free(1.0, seen[:, run, place].tolist(), **one, judged=True))
            np.testing.assert_allclose(torch.stack(found)[:, run, place], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RULES)
def test_runs_side_by_side_are_those_of_each_alone(name: str, dtype: torch.dtype) -> None:
    settings = drawn(RULES[name], 9)
    seen = gradients(len(settings)).to(dtype)
    together = trained(RULES[name], settings, seen)
    assert together.dtype == dtype
    for run, one in enumerate(settings):
        alone = trained(RULES[name], [one], seen[:, run : run + 1])
        assert torch.equal(alone[:, 0], together[:, run])


@pytest.mark.parametrize("name", RULES)
def test_an_update_leaves_what_it_was_given(name: str) -> None:
    rule = RULES[name]
    theta, gradient = torch.ones(2, 3), torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    state = rule.init(theta)
    before = {key: value.clone() for key, value in state.items()}
    kept = gradient.clone()
    moved, after = rule.update(theta, gradient, state, 1, **{key: Each([v]) for key, v in rule.defaults.items()})
    assert torch.equal(theta, torch.ones(2, 3))
    assert torch.equal(gradient, kept)
    assert state.keys() == before.keys() == after.keys()
    assert all(torch.equal(state[key], before[key]) for key in before)
    assert name.startswith("LA(") == torch.equal(moved, theta)  # whose first batch is lost


def test_the_fifteen() -> None:
    assert len(STUDY) == 15
    assert len({rule.name.lower() for rule in RULES.values()}) == len(RULES)
    assert find("rmsPROP") is RULES["RMSprop"]
    assert find("la(radam)") is RULES["LA(RAdam)"]
    assert find("AdamX") is None


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_spaces(rule: Rule) -> None:
    """What is searched has a default, and bounds that make sense."""
    assert next(iter(rule.space)) == "lr"
    assert rule.space.keys() <= rule.defaults.keys()
    for drawn_as in rule.space.values():
        ((kind, (low, high)),) = drawn_as.items()
        assert kind in ("log", "log1m", "int")
        assert 0 < low < high <= (20 if kind == "int" else 1)
