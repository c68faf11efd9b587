"""Each run of a pack against its own model, its own optimizer and autograd, one batch after the other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from cockpit.bench import modes, packs, precision
from cockpit.bench.optimizers import choose, named
from cockpit.bench.plan import Plan, make_plan
from cockpit.bench.rates import Rates
from cockpit.bench.seeds import epoch_generators, model_seed, train_eval_generator
from cockpit.problems._base import Batches, Place, Variant
from cockpit.results.result import Result

TRAINABLE = [name for name in named() if name != "SparseAdam"]  # which takes sparse gradients alone
METRICS = ("train_loss", "valid_loss", "test_loss")


class Replacing(torch.optim.Optimizer):
    """Gradient descent of unit length, which needs all elements; it replaces the data of a parameter."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data = parameter.data - group["lr"] * parameter.grad / parameter.grad.norm()


class Elsewhere(torch.optim.SGD):
    """Is judged half a step before where it is trained."""

    def train(self) -> None:
        self._move(-0.5)

    def eval(self) -> None:
        self._move(0.5)

    @torch.no_grad()
    def _move(self, share: float) -> None:
        for group in self.param_groups:
            if group.setdefault("train_mode", True) != (share < 0):
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter += share * group["lr"] * parameter.grad
            group["train_mode"] = share < 0


def plans(problem: str, optimizer: Any, seeds: Sequence[int], **options: Any) -> list[Plan]:
    return [make_plan(problem, optimizer, seed=seed, **options) for seed in seeds]


def trained(some: Sequence[Plan]) -> list[Result]:
    assert len({packs.together(plan) for plan in some}) == 1
    assert packs.together(some[0]) is not None
    found = packs.train(some)
    assert all(isinstance(one, Result) for one in found), found
    return found  # type: ignore[return-value]


def alone(plan: Plan) -> tuple[dict[str, list[float]], list[float]]:
    """Curves, and the loss of every step before it."""
    with precision.numbers(plan.dtype):
        model = plan.problem.model(model_seed(plan.seed))
    splits = precision.in_numbers(plan.problem.data(Place(Path()), plan.variant), plan.dtype)
    optimizer, variant, size = plan.choice.build(model.parameters()), plan.variant, plan.batch_size
    rates = Rates(plan.schedule, optimizer, plan.epochs)
    curves: dict[str, list[float]] = {}
    losses: list[float] = []

    def judged(batches: Batches, generator: torch.Generator | None = None) -> float:
        with torch.no_grad():
            modes.begin(optimizer)
            with modes.judging(optimizer):
                found = [plan.problem.losses(model(x), y).mean().item() for x, y in batches.epoch(size, generator)]
        return statistics.fmean(found)

    def judge() -> dict[str, float]:
        drawn = train_eval_generator(plan.seed, variant.order, variant.shuffled_eval)
        valid = {} if splits.valid is None else {"valid_loss": judged(splits.valid)}
        found = {"train_loss": judged(splits.train_eval, drawn), **valid, "test_loss": judged(splits.test)}
        for metric, value in found.items():
            curves.setdefault(metric, []).append(value)
        return found

    judge()
    for epoch in range(plan.epochs):
        rates.begin(epoch)
        for inputs, targets in splits.train.epoch(size, *epoch_generators(plan.seed, epoch, variant.order)):

            def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                optimizer.zero_grad()
                loss = plan.problem.losses(model(inputs), targets).mean()
                loss.backward()
                return loss

            loss = closure()
            losses.append(loss.item())
            optimizer.step(*([closure] if plan.choice.needs_closure else []))  # type: ignore[arg-type]
        rates.end(judge())
    return curves, losses


def check(some: Sequence[Plan], tolerance: float) -> None:
    found = trained(some)
    for plan, result in zip(some, found, strict=True):
        curves, losses = alone(plan)
        assert result.curves.keys() == curves.keys()
        for metric, values in curves.items():
            assert result.curves[metric] == pytest.approx(values, rel=tolerance)
        steps = len(losses) // max(plan.epochs, 1)
        logged = [loss for step, loss in enumerate(losses) if step % steps % plan.log_interval == 0]
        assert result.batch_losses == pytest.approx(logged, rel=tolerance)
        assert replace(result, curves={}, batch_losses=[], seconds=[]) == replace(plan.result(), complete=True)
        assert len(result.seconds) == plan.epochs


@pytest.mark.parametrize("name", TRAINABLE)
def test_every_optimizer(name: str) -> None:
    few: dict[str, Any] = {"max_iter": 8} if name == "LBFGS" else {}  # close to the minimum rounding decides
    rate = choose(name).hyperparameters["lr"]
    options = {"epochs": 2, "batch_size": 250, "dtype": "float64", **few}
    some = [*plans("quadratic_deep", name, [1, 2], schedule="0.5@1", **options)]
    some += plans("quadratic_deep", name, [2], lr=rate / 3, variant=Variant(hessian=1), **options)
    check(some, 1e-9)


@pytest.mark.parametrize(
    "choice",
    [
        choose("torch.optim:SGD", momentum=0.9, weight_decay=0.1, dampening=0.1),
        choose("torch.optim:Adam", amsgrad=True, weight_decay=0.1),
        choose(Replacing, lr=0.5),
        choose(Elsewhere, lr=1e-3),
        choose("ScheduleFreeAdamW", lr=0.1, weight_decay=0.1),
    ],
    ids=lambda choice: choice.name,
)
def test_options_and_own_optimizers(choice: Any) -> None:
    check(plans("quadratic_deep", choice, [1, 2], epochs=2, variant=Variant(hessian=1, order="fixed")), 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("problem", "rate"), [("beale", 1e-5), ("branin", 0.01), ("rosenbrock", 1e-4)])
def test_functions_of_two_variables(problem: str, rate: float, dtype: str) -> None:
    options = {"epochs": 2, "batch_size": 500, "dtype": dtype}
    check(plans(f"two_d_{problem}", "Momentum", [3, 4], lr=rate, momentum=0.5, **options), 1e-4)
    check(plans(f"two_d_{problem}", "torch.optim:Adam", [3], **options), 1e-4)


@pytest.mark.parametrize(
    "schedule",
    [
        "cosine_wr",
        lambda epoch: 0.5**epoch,
        lambda optimizer: StepLR(optimizer, 1, gamma=0.5),
        lambda optimizer: ReduceLROnPlateau(optimizer, patience=0, threshold=0.5),
    ],
)
@pytest.mark.parametrize("name", ["Adam", "torch.optim:Adam"])
def test_schedules(name: str, schedule: Any) -> None:
    check(plans("quadratic_deep", name, [1, 2], lr=0.1, epochs=3, schedule=schedule), 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"variant": Variant(order="study", hessian=2)},
        {"variant": Variant(order="study", validation=False)},
        {"variant": Variant(order="fixed", shuffled_eval=True)},
        {"variant": Variant(shuffled_eval=True), "log_interval": 3},
        {"epochs": 0},
    ],
    ids=str,
)
def test_data(options: dict[str, Any]) -> None:
    check(plans("quadratic_deep", "NAG", [1, 2], **{"epochs": 2, "lr": 1e-3, **options}), 1e-5)


def test_divergence_ends_a_run_and_no_other() -> None:
    rates = (2.0, 1e-3, 10.0, 1e30)
    found = trained([make_plan("quadratic_deep", "SGD", seed=42, lr=lr, epochs=4) for lr in rates])
    calm = make_plan("quadratic_deep", "SGD", seed=42, lr=1e-3, epochs=4)
    assert found[1].curves["test_loss"] == pytest.approx(alone(calm)[0]["test_loss"], rel=1e-5)
    assert [one.diverged for one in found] == [2, None, 1, 1]
    for one in found:
        assert one.complete
        assert all(math.isfinite(value) for curve in one.curves.values() for value in curve)
        assert one.diverged is None or all(len(curve) == one.diverged for curve in one.curves.values())
        assert all(map(math.isfinite, one.batch_losses))


@pytest.mark.parametrize("optimizer", ["torch.optim:LBFGS", Replacing])
def test_one_of_ones_own_that_diverges(optimizer: Any) -> None:
    (wild,) = trained(plans("quadratic_deep", optimizer, [42], lr=1e30, epochs=3))
    assert wild.diverged == 1


def test_nothing_is_trained_when_no_run_is_left() -> None:
    calls = 0

    def counted(epoch: int) -> float:
        nonlocal calls
        calls += 1
        return 1e9

    (result,) = trained(plans("quadratic_deep", "SGD", [42], epochs=50, schedule=counted))
    assert result.diverged == 1
    assert calls < 60  # 50 of them for the mark in its name


def test_the_losses_at_the_beginning_are_the_published_ones() -> None:
    some = [make_plan("quadratic_deep", "SGD", seed=42, epochs=0, variant=Variant(hessian=q)) for q in (0, 23, 8, 1)]
    ends = [one.curves["test_loss"][0] for one in trained(some)]
    assert ends == pytest.approx([353.4468, 314.8037, 195.2222, 347.3582], abs=1e-4)


def test_a_module_keeps_what_it_had() -> None:
    """What a pack trains reaches model and optimizer when it is asked for."""
    from cockpit.bench.pack import Pack

    members = [packs._Member(plan) for plan in plans("quadratic_deep", "Adam", [1, 2], epochs=1, lr=0.1)]
    splits = members[0].plan.problem.data(Place(Path()), Variant())
    pack = Pack(members, splits)
    pack.train(0)
    (parameter,) = members[1].model.parameters()
    assert torch.equal(parameter.detach(), torch.ones(100))
    pack.keep(1)
    assert not torch.equal(parameter.detach(), torch.ones(100))
    assert members[1].optimizer.state[parameter].keys() == {"m", "v", "step"}
    assert isinstance(members[1].model, nn.Module)
    assert not members[0].optimizer.state
