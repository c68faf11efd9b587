"""Odd loops around a watched model: right numbers, or undefined with the reason, and never an exception."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import pytest
import torch
from tests.small import (
    Batch,
    agrees,
    cross_entropies,
    draw,
    expected,
    individual_gradients,
    net,
    reasons,
    same,
    sgd,
    train,
    twin,
    values,
    watch,
    watched,
)
from torch import Tensor, nn

SAMPLES = ("NormTest", "InnerTest", "OrthoTest")


# ---- evaluation in between


@pytest.mark.parametrize("with_grad", [True, False])
@pytest.mark.parametrize("place", ["before forward", "before backward", "before step", "after step"])
def test_evaluation_does_not_disturb(with_grad: bool, place: str) -> None:
    batches, other = draw(4, 5, 4), draw(7, 2, 3, 9, 8, 6, 1, 2, 4, 5, seed=5)

    def evaluate(model: nn.Module, loss_fn: nn.Module) -> None:
        with torch.set_grad_enabled(with_grad):
            for x, y in other:
                loss_fn(model(x), y).item()

    def loop(model: nn.Module, optimizer: Any, loss_fn: nn.Module, batches: list[Batch]) -> None:
        for x, y in batches:
            optimizer.zero_grad()
            if place == "before forward":
                evaluate(model, loss_fn)
            loss = loss_fn(model(x), y)
            if place == "before backward":
                evaluate(model, loss_fn)
            loss.backward()
            if place == "before step":
                evaluate(model, loss_fn)
            optimizer.step()
            if place == "after step":
                evaluate(model, loss_fn)

    same(watched(batches, loop, quantities="business"), watched(batches, quantities="business"))


def test_gradients_of_something_else_in_between() -> None:
    """``torch.autograd.grad`` for a saliency map, and a backward pass to the inputs alone, are no part of the step."""

    def loop(model: nn.Module, optimizer: Any, loss_fn: nn.Module, batches: list[Batch]) -> None:
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            probe = x.clone().requires_grad_()
            torch.autograd.grad(model(probe).sum(), probe)
            (probe * 2).sum().backward()
            loss.backward()
            optimizer.step()

    batches = draw(4, 5, 4)
    same(watched(batches, loop), watched(batches))


# ---- clearing gradients


def test_zeroing_in_place_is_the_same() -> None:
    def loop(model: nn.Module, optimizer: Any, loss_fn: nn.Module, batches: list[Batch]) -> None:
        for x, y in batches:
            optimizer.zero_grad(set_to_none=False)
            loss_fn(model(x), y).backward()
            optimizer.step()

    batches = draw(4, 5, 4)
    same(watched(batches, loop, quantities="business"), watched(batches, quantities="business"))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_nobody_clears_the_gradients(accumulate: int) -> None:
    """g is what this step added."""
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 4, 4)
    optimizer, truth = sgd(model), []
    with watch(model, optimizer, loss_fn) as pit:
        for x, y in batches:
            truth.append(expected(model, x, y))
            for part, target in zip(x.split(4 // accumulate), y.split(4 // accumulate), strict=True):
                (loss_fn(model(part), target) / accumulate).backward()
            optimizer.step()
    for step, row in pit.get_output().items():
        agrees(row, truth[step])


def test_a_backward_pass_that_is_thrown_away() -> None:
    batches, other = draw(4, 5, 4), draw(7, seed=5)[0]

    def loop(model: nn.Module, optimizer: Any, loss_fn: nn.Module, batches: list[Batch]) -> None:
        for x, y in batches:
            loss_fn(model(other[0]), other[1]).backward()
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()

    same(watched(batches, loop), watched(batches))


def test_accumulation_is_one_batch() -> None:
    batches = draw(6, 6, 4)

    def loop(model: nn.Module, optimizer: Any, loss_fn: nn.Module, batches: list[Batch]) -> None:
        for x, y in batches:
            optimizer.zero_grad()
            for part, target in zip(x.split(2), y.split(2), strict=True):
                (loss_fn(model(part), target) * 2 / len(x)).backward()
            optimizer.step()

    pit = watched(batches, loop, quantities="business")
    same(pit, watched(batches, quantities="business"), rel=1e-7)
    assert "accumulation" in pit.explain()


# ---- steps that do not happen


@pytest.mark.parametrize("after_backward", [True, False])
def test_a_step_is_skipped_where_the_loss_is_not_finite(after_backward: bool) -> None:
    batches = draw(4, 5, 4, 4)

    def loop(model: nn.Module, optimizer: Any, loss_fn: nn.Module, batches: list[Batch]) -> None:
        for k, (x, y) in enumerate(batches):
            optimizer.zero_grad()
            loss = loss_fn(model(x / 0 if k == 1 else x), y)
            if after_backward:
                loss.backward()
            if not loss.isfinite():
                continue
            if not after_backward:
                loss.backward()
            optimizer.step()

    pit = watched(batches, loop)
    same(pit, watched([batches[0], *batches[2:]]))


def test_a_scaler_skips_a_step_and_halves_its_scale() -> None:
    model, loss_fn, batches = net().float(), nn.CrossEntropyLoss(), [(x.float(), y) for x, y in draw(4, 4, 4, 4)]
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=2.0**16)
    truth = []
    with watch(model, optimizer, loss_fn) as pit:
        for k, (x, y) in enumerate(batches):
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            if k == 1:
                loss = loss * float("inf")
            else:
                truth.append(expected(model, x.double(), y))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    assert scaler.get_scale() == 2.0**15
    assert len(pit.get_output()) == 3
    for step, row in pit.get_output().items():
        agrees(row, truth[step], rel=1e-4)


def test_a_loss_that_is_not_a_number_once() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 5, 4)
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, "full") as pit:
        for k, (x, y) in enumerate(batches):
            optimizer.zero_grad()
            truth = expected(model, x, y)
            (loss_fn(model(x), y) * (float("nan") if k == 1 else 1.0)).backward()
            for p in model.parameters():
                p.grad.nan_to_num_(0.0)
            optimizer.step()
    output = pit.get_output()
    assert isnan(output[1]["Loss"])
    for name in (*SAMPLES, "GradHist1d", "GradHist2d", "HessMaxEV", "TICDiag"):
        assert output[1][name] is None
        assert any("finite" in reason for reason in reasons(pit, name)), reasons(pit, name)
    assert output[0]["Alpha"] is None
    agrees(output[2], truth)


# ---- calls and batches


def test_the_model_is_called_twice_before_one_backward_pass() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 5)
    optimizer, truth = sgd(model), []

    def both(x: Tensor, y: Tensor) -> Callable[[nn.Module], Tensor]:
        return lambda model: cross_entropies(x, y)(model) + 0.5 * cross_entropies(-x, y)(model)

    with watch(model, optimizer, loss_fn) as pit:
        for x, y in batches:
            truth.append(values(individual_gradients(twin(model), both(x, y))))
            optimizer.zero_grad()
            (loss_fn(model(x), y) + 0.5 * loss_fn(model(-x), y)).backward()
            optimizer.step()
    for step, row in pit.get_output().items():
        agrees(row, truth[step])


def test_calls_with_batches_of_different_size() -> None:
    """One backward pass over labelled and unlabelled samples: right or undefined, not wrong."""
    model, loss_fn, (batch, other) = net(), nn.CrossEntropyLoss(), draw(4, 6)
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn) as pit:
        (loss_fn(model(batch[0]), batch[1]) + 0.1 * loss_fn(model(other[0]), other[1])).backward()
        optimizer.step()
    row = pit.get_output()[0]
    assert all(row[name] is None for name in (*SAMPLES, "GradHist1d"))
    assert "batch_size" in reasons(pit, "NormTest")[0]
    assert all(value > 0 for value in row["GradNorm"].values())


def test_one_sample() -> None:
    pit = watched(draw(1, 1))
    for row in pit.get_output().values():
        assert all(row[name] is None for name in (*SAMPLES, "Alpha"))
        assert row["GradHist1d"].counts.sum() == sum(p.numel() for p in net().parameters())
    for name in SAMPLES:
        assert "one sample" in reasons(pit, name)[0]


def test_the_last_batch_is_smaller() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(7, 7, 2)
    optimizer, truth = sgd(model), []
    with watch(model, optimizer, loss_fn) as pit:
        for batch in batches:
            truth.append(expected(model, *batch))
            train(model, optimizer, loss_fn, [batch])
    for step, row in pit.get_output().items():
        agrees(row, truth[step])


def test_a_vector_is_backpropagated_with_weights() -> None:
    """``losses.backward(gradient=weights)``: no scalar, and yet a loss."""
    model, loss_fn, (batch,) = net(), nn.CrossEntropyLoss(reduction="none"), draw(5)
    optimizer, truth = sgd(model), expected(model, *batch)
    with watch(model, optimizer, loss_fn) as pit:
        loss_fn(model(batch[0]), batch[1]).backward(gradient=torch.full((5,), 0.2, dtype=torch.float64))
        optimizer.step()
    agrees(pit.get_output()[0], truth)
    assert pit.get_output()[0]["Loss"] == pytest.approx(cross_entropies(*batch)(net()).mean().item())


def test_torch_complains_about_a_vector_as_ever() -> None:
    model, loss_fn, (batch,) = net(), nn.CrossEntropyLoss(reduction="none"), draw(5)
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn), pytest.raises(RuntimeError, match="scalar outputs"):
        loss_fn(model(batch[0]), batch[1]).backward()


def test_a_loss_times_a_tensor_is_no_scaled_loss() -> None:
    """It looks as a gradient scaler's product does, and none is there."""
    batches = draw(4, 5, 4)

    def loop(factor: Any) -> Callable[..., None]:
        def run(model: nn.Module, optimizer: Any, loss_fn: nn.Module, batches: list[Batch]) -> None:
            for x, y in batches:
                optimizer.zero_grad()
                (loss_fn(model(x), y) * factor).backward()
                optimizer.step()

        return run

    same(watched(batches, loop(torch.tensor(0.5, dtype=torch.float64))), watched(batches, loop(0.5)))


@pytest.mark.parametrize("how", ["retain_graph", "inputs", "create_graph"])
def test_options_of_backward(how: str) -> None:
    model, loss_fn, (batch,) = net(), nn.CrossEntropyLoss(), draw(5)
    optimizer, truth = sgd(model), expected(model, *batch)
    options = {"inputs": list(model.parameters())} if how == "inputs" else {how: True}
    with watch(model, optimizer, loss_fn) as pit:
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward(**options)
        if how != "inputs":
            torch.autograd.grad(loss, list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad()
    agrees(pit.get_output()[0], truth)


def test_gradients_for_some_parameters_only() -> None:
    """``backward(inputs=...)`` fills the gradients of the last layer alone."""
    model, loss_fn, (batch,) = net(), nn.CrossEntropyLoss(), draw(5)
    optimizer, x, y = sgd(model), *batch
    g_n = individual_gradients(net(), cross_entropies(x, y))
    truth = values({name: g for name, g in g_n.items() if name.startswith("4.")})
    with watch(model, optimizer, loss_fn) as pit:
        loss_fn(model(x), y).backward(inputs=list(model[4].parameters()))
        optimizer.step()
    row = pit.get_output()[0]
    assert {name: value for name, value in row["GradNorm"].items() if value} == pytest.approx(truth["GradNorm"])
    for name in SAMPLES:
        assert row[name] is None or row[name] == pytest.approx(truth[name]), name


# ---- dropout


def test_individual_gradients_have_the_masks_of_the_step() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)).double()
    loss_fn, optimizer, (x, y) = nn.CrossEntropyLoss(), sgd(model), draw(6)[0]

    def losses(model: nn.Module) -> Tensor:
        torch.manual_seed(7)
        return cross_entropies(x, y)(model)

    truth = values(individual_gradients(model, losses))
    torch.manual_seed(7)
    with watch(model, optimizer, loss_fn) as pit:
        train(model, optimizer, loss_fn, [(x, y)])
    row = pit.get_output()[0]
    agrees(row, truth)
    assert row["NormTest"] ** 2 == pytest.approx(row["InnerTest"] ** 2 + row["OrthoTest"] ** 2)
    assert "cover all parameters" in pit.explain()
    assert "no sample contributed" not in pit.explain()


def test_a_penalty_is_reported_and_kept_out_of_individual_gradients() -> None:
    model, loss_fn, (batch,) = net(), nn.CrossEntropyLoss(), draw(5)
    optimizer, truth = sgd(model), expected(model, *batch)
    with watch(model, optimizer, loss_fn) as pit:
        (loss_fn(model(batch[0]), batch[1]) + sum(p.square().sum() for p in model.parameters())).backward()
        optimizer.step()
    row = pit.get_output()[0]
    for name in SAMPLES:
        assert row[name] == pytest.approx(truth[name])
    assert row["GradNorm"]["0.weight"] > 2 * truth["GradNorm"]["0.weight"]
    assert "no sample contributed" in pit.explain()


def test_what_waits_for_a_step_without_a_backward_pass_is_undefined() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, ["Loss", "Alpha"]) as pit:
        train(model, optimizer, loss_fn, draw(4))
        optimizer.zero_grad()
        optimizer.step()
    assert pit.get_output()[0]["Alpha"] is None
    assert pit.history.reasons()["Alpha"]["no backward pass was seen in the step after"] == [0]
