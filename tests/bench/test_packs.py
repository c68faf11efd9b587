"""The bits of a run do not depend on its pack."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cockpit.bench import packs, rows
from cockpit.bench.field import PROBLEMS
from cockpit.bench.packs import Failed
from cockpit.bench.plan import Plan, make_plan
from cockpit.bench.runner import bench, train
from cockpit.core.errors import CockpitError
from cockpit.optimizers import RULES
from cockpit.problems._base import Variant
from cockpit.results.result import Result

SIZES = (1, 7, 100, 448)  # each run of one size is the run of any other


class Drawing(torch.optim.Optimizer):
    """Takes noise from every generator there is; raises where it is told to."""

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, fails: int = -1) -> None:
        super().__init__(params, {"lr": lr, "fails": fails})
        self.steps = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.steps += 1
        noise = random.random() + np.random.rand()
        for group in self.param_groups:
            if self.steps == group["fails"]:
                raise ZeroDivisionError(f"step {self.steps}")
            for parameter in group["params"]:
                own = noise * torch.randn(len(parameter)) + parameter.grad.dot(parameter)
                parameter -= group["lr"] * (parameter.grad + own)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def bits(one: Result | Failed) -> Result:
    assert isinstance(one, Result), one
    return replace(one, seconds=[])


def some(problem: str, optimizer: Any, count: int, dtype: str, **options: Any) -> list[Plan]:
    """Plans that differ by everything that a pack may mix."""
    quadratic = problem == "quadratic_deep"
    schedules = ("constant", "cosine", "ltr", "cosine_wr")
    return [
        make_plan(
            problem,
            optimizer,
            seed=42 + place % 3,
            lr=1e-5 * 1.02**place,
            schedule=schedules[place % 4],
            variant=Variant(hessian=place * 7 % 25 if quadratic else 0),
            dtype=dtype,
            **{"epochs": 2, "batch_size": 128 if quadratic else 1280, "log_interval": 3, **options},
        )
        for place in range(count)
    ]


def check(plans: Sequence[Plan], sizes: Sequence[int], compared: int = 6) -> None:
    """Some runs of packs of several sizes are those of each alone."""
    whole = [bits(one) for one in packs.train(plans)]
    chosen = sorted({round(place) for place in np.linspace(0, len(plans) - 1, compared)})
    for place in chosen:
        (alone,) = packs.train([plans[place]])
        assert bits(alone) == whole[place]
    for size in sizes:
        begin = max(0, chosen[len(chosen) // 2] - size // 2)
        part = packs.train(plans[begin : begin + size])
        assert [bits(one) for one in part] == whole[begin : begin + size]
    back = packs.train(plans[begin : begin + size][::-1])
    assert [bits(one) for one in back][::-1] == whole[begin : begin + size]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_packs_of_every_size(problem: str, dtype: str, threads: int) -> None:
    check(some(problem, "Adam", max(SIZES), dtype, epochs=1), SIZES[1:-1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RULES)
def test_every_rule(name: str, dtype: str) -> None:
    check(some("quadratic_deep", name, 30, dtype, epochs=1), (7,), 3)


@pytest.mark.parametrize("optimizer", [Drawing, "torch.optim:Adam", "torch.optim:LBFGS"])
def test_optimizers_of_ones_own(optimizer: Any, threads: int) -> None:
    few: dict[str, Any] = {"max_iter": 2} if optimizer == "torch.optim:LBFGS" else {}
    check(some("quadratic_deep", optimizer, 12, "float32", **few), (5,), 3)
    check(some("two_d_branin", optimizer, 6, "float64", **few), (4,), 3)


def test_hyperparameters_differ_too() -> None:
    own = [{"k": 1 + place, "beta2": 0.5 + place / 25, "slow": place / 10} for place in range(11)]
    check([make_plan("quadratic_deep", "LA(RAdam)", seed=1, epochs=3, **one) for one in own], (3,), 4)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("optimizer", ["AMSBound", Drawing])
def test_a_bench_run_is_a_pack_of_one(problem: str, optimizer: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 2, "batch_size": 200, "lr": 1e-4, "schedule": "cosine"}
    seeds = [3, 4, 5]
    packed = [bits(one) for one in packs.train([make_plan(problem, optimizer, seed=s, **options) for s in seeds])]
    assert [bits(one) for one in bench(problem, optimizer, seeds, out=tmp_path / "several", **options)] == packed
    assert bits(train(problem, optimizer, seed=4, out=tmp_path / "one", **options)) == packed[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_watched_run_agrees_to_rounding(dtype: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 2, "lr": 0.1, "dtype": dtype}
    plain = train("quadratic_deep", "RMSprop", out=tmp_path / "plain", **options)
    watched = train("quadratic_deep", "RMSprop", watch="economy", every=5, out=tmp_path / "watched", **options)
    assert plain.variant == watched.variant == ({} if dtype == "float32" else {"dtype": dtype})
    tolerance = 1e-6 if dtype == "float32" else 1e-12
    for metric, values in plain.curves.items():
        assert watched.curves[metric] == pytest.approx(values, rel=tolerance)
    assert watched.batch_losses == pytest.approx(plain.batch_losses, rel=tolerance)


# ---- a run that raises


def test_a_run_that_raises_leaves_its_pack() -> None:
    calm = [make_plan("quadratic_deep", Drawing, seed=seed, epochs=2, lr=1e-4) for seed in (1, 2, 3)]
    wild = make_plan("quadratic_deep", Drawing, seed=9, epochs=2, lr=1e-4, fails=9)
    refused = make_plan("quadratic_deep", Drawing, seed=8, epochs=2, lr=1e-4)
    refused = replace(refused, choice=replace(refused.choice, hyperparameters={"lr": 1e-4, "fails": 1}))
    found = packs.train([calm[0], wild, calm[1], refused, calm[2]])
    assert [bits(one) for one in found[::2]] == [bits(one) for one in packs.train(calm)]
    for one, plan, step in ((found[1], wild, 9), (found[3], refused, 1)):
        assert isinstance(one, Failed)
        assert one.plan is plan
        assert isinstance(one.error, ZeroDivisionError)
        assert str(one.error) == f"step {step}"
        assert one.error.__traceback__ is not None


class Leaving(Drawing):
    def step(self, closure: Any = None) -> None:
        if self.steps == 3:
            raise SystemExit("enough")
        super().step()


def test_an_optimizer_that_ends_the_process() -> None:
    (one,) = packs.train([make_plan("quadratic_deep", Leaving, seed=1, epochs=1)])
    assert isinstance(one, Failed)
    assert isinstance(one.error, SystemExit)


def test_a_setting_that_is_refused() -> None:
    plan = make_plan("quadratic_deep", "Adamax", seed=1, epochs=1)
    wrong = replace(plan, choice=replace(plan.choice, hyperparameters={"lr": -1.0}))
    one, other = packs.train([wrong, plan])
    assert isinstance(one, Failed)
    assert isinstance(one.error, CockpitError)
    assert bits(other) == bits(packs.train([plan])[0])
    (one,) = packs.train([wrong])
    assert isinstance(one, Failed)


def test_sparse_gradients_are_not_to_be_had() -> None:
    (one,) = packs.train([make_plan("quadratic_deep", "SparseAdam", seed=1, epochs=1)])
    assert isinstance(one, Failed)
    assert "SparseAdam cannot train quadratic_deep" in str(one.error)


# ---- what goes together


def test_what_goes_together() -> None:
    def key(problem: str = "quadratic_deep", optimizer: Any = "Adam", **options: Any) -> Any:
        return packs.together(make_plan(problem, optimizer, **{"seed": 1, "epochs": 2, "batch_size": 100, **options}))

    same = [{"seed": 2}, {"lr": 0.5, "beta1": 0.3}, {"schedule": "cosine"}, {"variant": Variant(hessian=3)}]
    assert {key(**options) for options in same} == {key()}
    other: list[dict[str, Any]] = [{"epochs": 3}, {"batch_size": 50}, {"dtype": "float64"}, {"log_interval": 3}]
    other += [{"variant": Variant(order="study")}, {"optimizer": "NAdam"}, {"problem": "two_d_beale"}]
    other += [{"optimizer": "torch.optim:Adam"}, {"variant": Variant(validation=False)}]
    assert len({key(), *(key(**options) for options in other)}) == 1 + len(other)
    assert key("digits") is None
    assert key(compile="eager") is None
    assert key(amp="bf16") is None


def test_plans_of_any_kind_one_after_the_other(tmp_path: Path) -> None:
    digits = make_plan("digits", "Adam", seed=1, epochs=1)
    quadratic = make_plan("quadratic_deep", "Adam", seed=1, epochs=1)
    one, other = packs.train([digits, quadratic])
    assert bits(one) == bits(train("digits", "Adam", seed=1, epochs=1, out=tmp_path))
    assert isinstance(other, Result)
    assert other.curves["test_loss"][1] < other.curves["test_loss"][0]
    assert packs.train([]) == []


def test_plans_that_cannot_go_together_have_the_bits_of_their_own_packs() -> None:
    plans = [
        make_plan("quadratic_deep", "Adam", seed=seed, epochs=2, variant=Variant(order=order))
        for seed in (42, 43)
        for order in ("fresh", "fixed", "study")
    ]
    for plan, result in zip(plans, packs.train(plans), strict=True):
        assert bits(result) == bits(packs.train([plan])[0])


def test_random_state_is_left_alone() -> None:
    before = torch.get_rng_state(), random.getstate()
    packs.train(some("quadratic_deep", Drawing, 2, "float32"))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_a_machine_whose_products_depend_on_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """There each row is multiplied in a call of its own."""
    plans = some("quadratic_deep", "SGD", 5, "float32")
    whole = [bits(one) for one in packs.train(plans)]
    multiply = rows._multiply

    def rounded(own: Tensor, matrix: Tensor, out: Tensor) -> None:
        multiply(own, matrix, out)
        out *= 1 + 1e-6 * (len(own) > 1)

    monkeypatch.setattr(rows, "_multiply", rounded)
    rows._steady.cache_clear()
    try:
        assert [bits(one) for one in packs.train(plans)] == whole
    finally:
        rows._steady.cache_clear()


def test_sums_are_sums() -> None:
    values = torch.randn(3, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(rows.sums(values), values.sum(1), rtol=1e-13)
    assert rows.sums(torch.ones(2, 1)).tolist() == [1, 1]
    assert rows.made(2, 100, torch.float32).shape == (2, 112)
    assert rows.made(2, 100, torch.float64).shape == (2, 104)
