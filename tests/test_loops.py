"""Odd loops around a watched model: right numbers, or undefined with the reason, and never an exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isnan
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cockpit.core.errors import CockpitError
from tests.cases.models import mlp
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
bce = nn.BCEWithLogitsLoss()


# ---- several models


def test_two_models_in_turn_are_as_each_alone() -> None:
    batches, others = draw(4, 5, 4), draw(6, 3, 4, seed=2)
    loss_fn = nn.CrossEntropyLoss()
    models = [net(0), net(0)]
    optimizers = [sgd(model) for model in models]
    with watch(models[0], optimizers[0], loss_fn, "full") as first, watch(models[1], optimizers[1], loss_fn, "full") as second:
        for batch, other in zip(batches, others, strict=True):
            train(models[0], optimizers[0], loss_fn, [batch])
            train(models[1], optimizers[1], loss_fn, [other])
    same(first, watched(batches, quantities="full"))
    same(second, watched(others, quantities="full"))


def test_two_models_in_one_backward_pass() -> None:
    batches, loss_fn = draw(4, 5, 4), nn.CrossEntropyLoss()
    models = [net(0), net(0)]
    optimizers = [sgd(model) for model in models]
    with watch(models[0], optimizers[0], loss_fn) as first, watch(models[1], optimizers[1], loss_fn) as second:
        for x, y in batches:
            for optimizer in optimizers:
                optimizer.zero_grad()
            (loss_fn(models[0](x), y) + loss_fn(models[1](-x), y)).backward()
            for optimizer in optimizers:
                optimizer.step()
    flipped = [(-x, y) for x, y in batches]
    for pit, own in ((first, batches), (second, flipped)):
        alone = watched(own).get_output()
        for step, row in pit.get_output().items():
            for name in (*SAMPLES, "GradNorm", "UpdateSize", "Distance"):
                assert row[name] == pytest.approx(alone[step][name]), f"{name} at {step}"


class Game:
    """A generator and a discriminator, each watched."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.g, self.d = mlp(nn.Tanh, (3, 4, 5)).double(), mlp(nn.Tanh, (5, 4, 1)).double()
        self.optimizers = sgd(self.g), sgd(self.d)
        self.rounds = [(x, torch.randn(len(x), 3, dtype=torch.float64)) for x, _ in draw(4, 6, 5)]

    def discriminator_gradients(self, real: Tensor, fake: Tensor) -> dict[str, Tensor]:
        """Of the sum of both means, each sample of either kind on its own."""
        x = torch.cat([real, fake])
        target = torch.cat([torch.ones(len(real), 1), torch.zeros(len(fake), 1)]).double()
        own = _copied(self.d, mlp(nn.Tanh, (5, 4, 1)).double())
        return {n: 2 * g for n, g in individual_gradients(own, lambda d: _bces(d(x), target)).items()}

    def generator_gradients(self, z: Tensor) -> dict[str, Tensor]:
        own, judge = _copied(self.g, mlp(nn.Tanh, (3, 4, 5)).double()), _copied(self.d, mlp(nn.Tanh, (5, 4, 1)).double())
        return individual_gradients(own, lambda g: _bces(judge(g(z)), torch.ones(len(z), 1).double()))


def _copied(model: nn.Module, into: nn.Module) -> nn.Module:
    into.load_state_dict(model.state_dict())
    return into


def _bces(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, target, reduction="none")[:, 0]


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("detached", [True, False])
def test_generator_and_discriminator(passes: int, detached: bool) -> None:
    """Both are right, though the generator's loss runs through the discriminator and fills its gradients."""
    game = Game()
    (opt_g, opt_d), truth_g, truth_d = game.optimizers, [], []
    with watch(game.g, opt_g, bce) as pit_g, watch(game.d, opt_d, bce) as pit_d:
        for real, z in game.rounds:
            ones, zeros = torch.ones(len(z), 1).double(), torch.zeros(len(z), 1).double()
            opt_d.zero_grad()
            fake = game.g(z)
            shown = fake.detach() if detached else fake
            truth_d.append(game.discriminator_gradients(real, fake.detach()))
            if passes == 2:
                bce(game.d(real), ones).backward()
                bce(game.d(shown), zeros).backward()
            else:
                (bce(game.d(real), ones) + bce(game.d(shown), zeros)).backward()
            opt_d.step()
            opt_g.zero_grad()
            truth_g.append(game.generator_gradients(z))
            bce(game.d(game.g(z)), ones).backward()
            opt_g.step()
    assert len(pit_g.get_output()) == len(pit_d.get_output()) == 3
    for step, g_n in enumerate(truth_g):
        agrees(pit_g.get_output()[step], values(g_n))
    for step, g_n in enumerate(truth_d):
        if passes == 1:  # one batch of pairs
            B = len(game.rounds[step][0])
            g_n = {name: (g[:B] + g[B:]) / 2 for name, g in g_n.items()}
        agrees(pit_d.get_output()[step], values(g_n))


# ---- several optimizers, part of the parameters


def test_two_optimizers_are_as_one() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 4, 4)
    optimizers = [sgd(model[0]), sgd(model[2:])]
    with watch(model, optimizers, loss_fn, "full") as pit:
        for x, y in batches:
            model.zero_grad()
            loss_fn(model(x), y).backward()
            for optimizer in optimizers:
                optimizer.step()
    same(pit, watched(batches, quantities="full"))


def test_two_optimizers_of_which_one_steps_more_often() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 4, 4, 4)
    first, second = sgd(model[0]), sgd(model[2:])
    truth = []
    with watch(model, [first, second], loss_fn) as pit:
        for k, (x, y) in enumerate(batches):
            model.zero_grad()
            truth.append(expected(model, x, y))
            loss_fn(model(x), y).backward()
            first.step()
            if k % 2:
                second.step()
    for step, row in pit.get_output().items():
        for name in ("GradNorm", *SAMPLES):
            assert row[name] is None or row[name] == pytest.approx(truth[step][name]), f"{name} at {step}"


def test_an_optimizer_with_part_of_the_parameters() -> None:
    """What nobody clears goes on adding up: the gradient of a step is what the step adds."""
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 5, 4)
    optimizer, truth = sgd(model[4]), []
    with watch(model, optimizer, loss_fn) as pit:
        for x, y in batches:
            truth.append(expected(model, x, y))
            train(model, optimizer, loss_fn, [(x, y)])
    for step, row in pit.get_output().items():
        agrees(row, truth[step])
        assert row["UpdateSize"]["0.weight"] == row["Distance"]["0.weight"] == 0
        assert row["UpdateSize"]["4.weight"] > 0


def test_freezing_and_thawing_during_training() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 5, 4, 6, 4)
    optimizer, truth, frozen = sgd(model), [], {1, 2}
    with watch(model, optimizer, loss_fn) as pit:
        for step, (x, y) in enumerate(batches):
            model[0].requires_grad_(step not in frozen)
            g_n = individual_gradients(twin(model), cross_entropies(x, y))
            left_out = ("0.weight", "0.bias") if step in frozen else ()
            truth.append(values({name: g for name, g in g_n.items() if name not in left_out}))
            train(model, optimizer, loss_fn, [(x, y)])
    for step, row in pit.get_output().items():
        found = {name: value for name, value in row["GradNorm"].items() if value != 0}
        assert found == pytest.approx(truth[step]["GradNorm"]), step
        for name in SAMPLES:
            assert row[name] == pytest.approx(truth[step][name]), f"{name} at {step}"


def test_a_model_that_is_frozen_at_first_may_be_thawed_by_groups() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 4)
    model[:4].requires_grad_(False)
    optimizer = sgd(model[4])
    with watch(model, optimizer, loss_fn) as pit:
        train(model, optimizer, loss_fn, batches[:1])
        model.requires_grad_(True)
        optimizer.add_param_group({"params": [*model[:4].parameters()]})
        truth = expected(model, *batches[1])
        train(model, optimizer, loss_fn, batches[1:])
    agrees(pit.get_output()[1], truth)


# ---- closures, and steps inside the backward pass


def test_optimizers_that_step_inside_the_backward_pass() -> None:
    """One optimizer for each parameter, called as soon as its gradient is there: right or undefined."""
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(4, 5, 4)
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(p: Tensor) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    truth = []
    with watch(model, list(optimizers.values()), loss_fn) as pit:
        for x, y in batches:
            truth.append(expected(model, x, y))
            loss_fn(model(x), y).backward()
    plain = net()
    train(plain, sgd(plain), loss_fn, batches)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), plain.parameters(), strict=True))
    assert list(pit.get_output()) == [0, 1, 2]
    for k, row in pit.get_output().items():
        sizes = {name: 0.1 * value for name, value in truth[k]["GradNorm"].items()}
        assert row["UpdateSize"] == pytest.approx(sizes)
        for name in ("GradNorm", *SAMPLES):
            assert row[name] is None or row[name] == pytest.approx(truth[k][name]), f"{name} at {k}"



def test_lbfgs_is_right_or_refused() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(6, 6)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    truth = expected(model, *batches[0])
    try:
        pit = watch(model, optimizer, loss_fn)
    except CockpitError as refusal:
        assert "LBFGS" in str(refusal)
        return
    with pit:
        for x, y in batches:

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                optimizer.zero_grad()
                loss = loss_fn(model(x), y)
                loss.backward()
                return loss

            before = [p.detach().clone() for p in model.parameters()]
            optimizer.step(closure)
            moved = [float((p.detach() - q).norm()) for p, q in zip(model.parameters(), before, strict=True)]
    agrees(pit.get_output()[0], truth)
    assert list(pit.get_output()[1]["UpdateSize"].values()) == pytest.approx(moved)


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


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Nets this small gain nothing from a second thread and lose much to a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
