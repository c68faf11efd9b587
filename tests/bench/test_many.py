from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cockpit import problems
from cockpit.bench.many import run_many
from cockpit.bench.optimizers import Choice, choose, named
from cockpit.bench.runner import train
from cockpit.bench.schedules import factors
from cockpit.bench.seeds import epoch_generators, model_seed
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Batches, Place, Problem, Splits, Variant
from cockpit.problems.data.batches import changed
from cockpit.results.result import Result

SEEDS = range(42, 52)
OLD = Variant(validation=False, order="fixed")  # what made the published table
TRAINABLE = [name for name in named() if name not in ("Muon", "SparseAdam")]  # vectors, with dense gradients


class Replacing(torch.optim.Optimizer):
    """Gradient descent of unit length, which needs all elements; it replaces the data of a parameter."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data = parameter.data - group["lr"] * parameter.grad / parameter.grad.norm()


def judged(problem: Problem, model: nn.Module, batches: Batches, size: int) -> float:
    with torch.no_grad():
        losses = [problem.losses(model(inputs), targets).mean().item() for inputs, targets in batches.epoch(size)]
    return statistics.fmean(losses)


def alone(
    name: str, choice: Choice, seed: int, epochs: int, size: int, schedule: str, variant: Variant
) -> dict[str, list[float]]:
    """One model, one optimizer, one batch after the other."""
    problem = problems.adapt(problems.get(name), variant)
    splits = problem.data(Place(Path()), variant)
    model = problem.model(model_seed(seed))
    optimizer = choice.build(model.parameters())
    curves: dict[str, list[float]] = {"train_loss": [], "valid_loss": [], "test_loss": []}

    def judge() -> None:
        for curve, split in zip(curves.values(), (splits.train_eval, splits.valid, splits.test), strict=True):
            assert split is not None
            curve.append(judged(problem, model, split, size))

    judge()
    for epoch, factor in enumerate(factors(schedule, epochs)):
        for group in optimizer.param_groups:
            group["lr"] = choice.hyperparameters["lr"] * factor
        for inputs, targets in splits.train.epoch(size, *epoch_generators(seed, epoch, variant.order)):

            def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
                optimizer.zero_grad()
                loss = problem.losses(model(inputs), targets).mean()
                loss.backward()
                return loss

            if choice.needs_closure:
                optimizer.step(closure)  # type: ignore[arg-type]
            else:
                closure()
                optimizer.step()
        judge()
    return curves


def same(found: Result, expected: dict[str, list[float]], tolerance: float = 1e-5) -> bool:
    assert found.curves.keys() == expected.keys()
    return all(found.curves[metric] == pytest.approx(expected[metric], rel=tolerance) for metric in expected)


def final(results: Sequence[Result]) -> list[float]:
    return [result.curves["test_loss"][-1] for result in results]


@pytest.fixture
def precise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute in double precision: some optimizers multiply what is rounded, LBFGS by thousands."""
    single = problems.get

    @cache  # a problem is told from another of its name by what it consists of
    def get(name: str) -> Problem:
        problem = single(name)

        def data(place: Place, variant: Variant) -> Splits:
            return changed(problem.data(place, variant), lambda batch: (batch[0].double(), batch[1].double()))

        return replace(problem, model=lambda seed: problem.model(seed).double(), data=data)

    monkeypatch.setattr(problems, "get", get)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("name", TRAINABLE)
def test_each_run_is_as_if_it_were_alone(name: str) -> None:
    few = {"max_iter": 8} if name == "LBFGS" else {}  # iterations; close to the minimum rounding decides
    choices = [choose(name, **few), choose(name, lr=choose(name).hyperparameters["lr"] / 3, **few)]
    results = run_many("quadratic_deep", choices, [1, 2], epochs=2, batch_size=250, schedule="0.5@1")
    pairs = [(choice, seed) for choice in choices for seed in (1, 2)]
    assert len({tuple(result.curves["test_loss"]) for result in results}) == 4
    for (choice, seed), result in zip(pairs, results, strict=True):
        assert (result.seed, result.hyperparameters, result.optimizer) == (seed, choice.hyperparameters, name)
        assert same(result, alone("quadratic_deep", choice, seed, 2, 250, "0.5@1", Variant()), 1e-9)


@pytest.mark.parametrize(
    "choice",
    [
        choose("torch.optim:SGD", momentum=0.9, weight_decay=0.1, dampening=0.1),
        choose("torch.optim:Adam", amsgrad=True, weight_decay=0.1),
        choose("torch.optim:RMSprop", momentum=0.9, centered=True),
        choose("torch.optim:NAdam", decoupled_weight_decay=True, weight_decay=0.1),
        choose(Replacing, lr=0.5),
    ],
    ids=lambda choice: choice.name,
)
def test_options_and_own_optimizers(choice: Choice) -> None:
    variant = Variant(hessian=1, order="fixed")
    results = run_many("quadratic_deep", [choice], [1, 2], epochs=2, batch_size=250, variant=variant)
    for seed, result in zip((1, 2), results, strict=True):
        assert same(result, alone("quadratic_deep", choice, seed, 2, 250, "constant", variant))


@pytest.mark.parametrize("problem", ["two_d_beale", "two_d_branin", "two_d_rosenbrock"])
def test_functions_of_two_variables(problem: str) -> None:
    choices = [choose("SGD", lr=1e-5), choose("Adam", lr=0.1), choose("Adafactor")]
    results = run_many(problem, choices, [3, 4], epochs=2, batch_size=500)
    pairs = [(choice, seed) for choice in choices for seed in (3, 4)]
    for (choice, seed), result in zip(pairs, results, strict=True):
        assert same(result, alone(problem, choice, seed, 2, 500, "constant", Variant()), 1e-4)


def test_the_result_is_that_of_the_runner(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 3, "batch_size": 100, "schedule": "cosine", "variant": OLD}
    (many,) = run_many("quadratic_deep", [choose("Adam", lr=0.1)], [7], **options)
    one = train("quadratic_deep", "Adam", seed=7, lr=0.1, out=tmp_path, device="cpu", **options)
    assert same(many, one.curves)
    for name in ("problem", "optimizer", "hyperparameters", "seed", "batch_size", "epochs", "schedule", "variant"):
        assert getattr(many, name) == getattr(one, name)
    assert (many.complete, many.diverged, many.batch_losses, many.seconds) == (True, None, [], [])


def test_the_losses_at_the_beginning_are_the_published_ones() -> None:
    for hessian, test in ((0, 353.4468), (1, 347.3582), (8, 195.2222), (23, 314.8037)):
        (result,) = run_many("quadratic_deep", [choose("SGD")], [42], epochs=0, variant=Variant(hessian=hessian))
        assert result.curves["test_loss"] == pytest.approx([test], abs=1e-4)
        if hessian == 0:
            assert result.curves["valid_loss"] == pytest.approx([353.8128], abs=1e-4)


def test_divergence_ends_a_run_and_no_other() -> None:
    calm = choose("SGD", lr=1e-3)
    wild = [choose("SGD", lr=2.0), choose("SGD", lr=10.0), choose("LBFGS", lr=1e6), choose(Replacing, lr=1e30)]
    results = run_many("quadratic_deep", [wild[0], calm, *wild[1:]], [42], epochs=4)
    undisturbed = results.pop(1)
    assert undisturbed.diverged is None
    assert same(undisturbed, alone("quadratic_deep", calm, 42, 4, 128, "constant", Variant()))
    for result in results:
        assert result.diverged is not None
        assert result.complete
        assert all(len(curve) == result.diverged for curve in result.curves.values())
        assert all(math.isfinite(value) for curve in result.curves.values() for value in curve)
    assert [result.diverged for result in results] == [2, 1, 1, 1]


def test_training_stops_when_no_run_is_left() -> None:
    calls = 0

    def counted(epoch: int) -> float:
        nonlocal calls
        calls += 1
        return 1e9

    (result,) = run_many("quadratic_deep", [choose("SGD")], [42], epochs=50, schedule=counted)
    assert result.diverged == 1
    assert result.schedule.startswith("counted_")
    assert calls < 60  # 50 of them for the mark in that name


def test_orders_of_mini_batches() -> None:
    fixed, fresh = (
        run_many("quadratic_deep", [choose("SGD")], [1, 2], epochs=2, variant=Variant(order=order))
        for order in ("fixed", "fresh")
    )
    assert fixed[0].variant == {"order": "fixed"}
    assert fresh[0].variant == {}
    assert fixed[0].curves != fixed[1].curves
    assert fixed[0].curves["test_loss"][2] != fresh[0].curves["test_loss"][2]


def test_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    run_many("quadratic_deep", [choose("Adam")], [1], epochs=1)
    assert torch.equal(before, torch.get_rng_state())


def test_nothing_to_do() -> None:
    assert run_many("quadratic_deep", [], [1]) == []
    assert run_many("quadratic_deep", [choose("SGD")], []) == []


def scheduler(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.StepLR(optimizer, 1)


@pytest.mark.parametrize(
    ("problem", "name", "options", "message"),
    [
        ("mnist_mlp", "SGD", {}, "unknown problem of which many runs go at once 'mnist_mlp'; .*known: quadratic_deep"),
        ("two_d_beale", "SGD", {"batch_size": 100}, "two_d_beale has no epochs"),
        ("two_d_beale", "SGD", {"epochs": 1}, "two_d_beale has no batch_size"),
        ("quadratic_deep", "SGD", {"epochs": -1}, "epochs is -1"),
        ("quadratic_deep", "SGD", {"batch_size": 1001}, "not one complete batch"),
        ("quadratic_deep", "SGD", {"schedule": "cosin"}, "unknown schedule"),
        ("quadratic_deep", "SGD", {"schedule": scheduler}, "schedule scheduler is no factor for an epoch"),
        ("quadratic_deep", "SGD", {"variant": Variant(order="random")}, "unknown order of mini-batches 'random'"),
        ("quadratic_deep", "Muon", {}, "Muon with .* cannot be made"),
        ("quadratic_deep", "SparseAdam", {}, "SparseAdam cannot train this problem: .*dense gradients"),
    ],
)
def test_wrong_input(problem: str, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CockpitError, match=message):
        run_many(problem, [choose(name)], [1], **options)


# The published baselines of quadratic_deep: learning rate, mean and deviation over ten seeds of the test loss at the
# end, and mean number of epochs until it is 87.703.
PUBLISHED: list[tuple[str, float, float, float, float]] = [
    ("SGD", 1.58e-2, 87.3975, 0.1603, 51.1),
    ("Momentum", 2.51e-3, 87.0450, 0.0239, 70.5),
    ("Adam", 3.98e-2, 87.1119, 0.0230, 39.9),
]


def near(values: Sequence[float], mean: float, deviation: float) -> bool:
    """Whether two means, of as many seeds each, are within three standard errors of their difference."""
    error = math.sqrt((statistics.variance(values) + deviation**2) / len(values))
    return abs(statistics.fmean(values) - mean) < 3 * error


@pytest.mark.slow
def test_published_numbers_come_out() -> None:
    choices = [choose(name, lr=lr) for name, lr, *_ in PUBLISHED]
    results = run_many("quadratic_deep", choices, SEEDS, variant=OLD)
    for row, (name, _, mean, deviation, speed) in enumerate(PUBLISHED):
        runs = results[10 * row : 10 * row + 10]
        assert {result.optimizer for result in runs} == {name}
        assert near(final(runs), mean, deviation)
        epochs = [next(at for at, loss in enumerate(run.curves["test_loss"]) if loss <= 87.70315) for run in runs]
        assert statistics.fmean(epochs) == pytest.approx(speed, abs=3)


@pytest.mark.slow
def test_published_numbers_need_the_fixed_order() -> None:
    _, (name, lr, mean, deviation, _), _ = PUBLISHED
    values = final(run_many("quadratic_deep", [choose(name, lr=lr)], SEEDS, variant=Variant(validation=False)))
    assert near(values, 88.67, 0.46)
    assert not near(values, mean, deviation)


ADAM = {"lr": 0.011040511903162242, "beta1": 0.6675153010433379, "beta2": 0.8404787556510415}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "schedule", "hessian", "valid", "test"),
    [
        ("SGD", {}, "ltr", 0, 85.91193, 87.32411),
        ("SGD", {}, "cosine_wr", 1, 82.71802, 83.96431),
        ("SGD", {}, "cosine", 8, 86.41757, 86.38364),
        ("Adam", ADAM, "constant", 0, 85.86774, 87.22511),
        ("Adam", ADAM, "constant", 8, 85.69378, 85.54006),
    ],
)
def test_a_published_run_is_one_of_ours(
    name: str, settings: dict[str, float], schedule: str, hessian: int, valid: float, test: float
) -> None:
    """The end of a single run is within three deviations of ours over seeds."""
    variant = Variant(order="fixed", hessian=hessian)
    results = run_many("quadratic_deep", [choose(name, **settings)], SEEDS, schedule=schedule, variant=variant)
    for metric, published in (("valid_loss", valid), ("test_loss", test)):
        ends = [result.curves[metric][-1] for result in results]
        deviation = statistics.stdev(ends)
        assert deviation < 0.15  # so that the comparison says something
        assert abs(statistics.fmean(ends) - published) < 3 * deviation
