"""Several models, several optimizers, parts of a model: each is right, or undefined with the reason."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.cases.models import mlp
from tests.small import (
    Batch,
    agrees,
    cross_entropies,
    draw,
    expected,
    individual_gradients,
    net,
    same,
    sgd,
    train,
    twin,
    values,
    watch,
    watched,
)
from torch import Tensor, nn

from cockpit.core.errors import CockpitError
from cockpit.core.record import Record
from cockpit.tracking.watched import Watch

CRITERION = nn.CrossEntropyLoss()
SAMPLES = ("NormTest", "InnerTest", "OrthoTest")
bce = nn.BCEWithLogitsLoss()


# ---- several models


def test_two_models_in_turn_are_as_each_alone() -> None:
    batches, others = draw(4, 5, 4), draw(6, 3, 4, seed=2)
    loss_fn = nn.CrossEntropyLoss()
    models = [net(0), net(0)]
    optimizers = [sgd(model) for model in models]
    with (
        watch(models[0], optimizers[0], loss_fn, "full") as first,
        watch(models[1], optimizers[1], loss_fn, "full") as second,
    ):
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


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_model_on_top_of_another(order: str) -> None:
    """One backward pass through both; whichever was watched first, each is as if watched alone."""

    def run(watched: tuple[str, ...]) -> dict[str, Watch]:
        torch.manual_seed(0)
        models = {"below": net(0), "above": mlp(nn.Tanh, (3, 4, 1)).double()}
        optimizers = {name: sgd(model) for name, model in models.items()}
        pits = {name: watch(models[name], optimizers[name], bce) for name in watched}
        for x, _ in draw(4, 5):
            for optimizer in optimizers.values():
                optimizer.zero_grad()
            bce(models["above"](models["below"](x)), torch.ones(len(x), 1).double()).backward()
            for optimizer in optimizers.values():
                optimizer.step()
        for pit in pits.values():
            pit.close()
        return pits

    alone = run(("below",)) | run(("above",))
    both = run(("below", "above") if order == "first" else ("above", "below"))
    for name, pit in both.items():
        same(pit, alone[name])


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
        own, judge = (
            _copied(self.g, mlp(nn.Tanh, (3, 4, 5)).double()),
            _copied(self.d, mlp(nn.Tanh, (5, 4, 1)).double()),
        )
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


def test_lbfgs_is_seen_where_the_step_begins() -> None:
    model, loss_fn, batches = net(), nn.CrossEntropyLoss(), draw(6, 6)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    truth = expected(model, *batches[0])
    with watch(model, optimizer, loss_fn) as pit:
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


def test_trainings_in_several_threads_are_as_each_alone() -> None:
    """Each has a model, an optimizer and a watch of its own; one watch is made in a thread that does not train."""
    plans = [(net(seed), draw(*[4] * 30, seed=seed)) for seed in range(3)]
    alone = [trained_in_memory(copy.deepcopy(model), batches) for model, batches in plans]
    parts = [prepared(model) for model, _ in plans]
    threads = [
        threading.Thread(target=lambda k=k: finish(*parts[k], plans[k][1]))  # type: ignore[misc]
        for k in range(len(plans))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (model, _, pit), (lonely, records) in zip(parts, alone, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), lonely.parameters(), strict=True))
        found = {(r.step, r.name): r for r in pit.history if r.name != "Time"}
        assert found.keys() == records.keys()
        assert all(found[key].reason == record.reason for key, record in records.items())
        assert all(found[key].value == pytest.approx(records[key].value) for key in records if key[1] == "GradNorm")
        assert all(found[key].value == pytest.approx(records[key].value) for key in records if key[1] == "NormTest")


Part = tuple[nn.Module, torch.optim.Optimizer, Watch]


def prepared(model: nn.Module) -> Part:
    optimizer = sgd(model)
    return model, optimizer, watch(model, optimizer, CRITERION, ["GradNorm", "NormTest", "Loss"])


def finish(model: nn.Module, optimizer: torch.optim.Optimizer, pit: Watch, batches: Sequence[Batch]) -> None:
    train(model, optimizer, CRITERION, batches)
    pit.close()


def trained_in_memory(model: nn.Module, batches: Sequence[Batch]) -> tuple[nn.Module, dict[tuple[int, str], Record]]:
    part = prepared(model)
    finish(*part, batches)
    return model, {(r.step, r.name): r for r in part[2].history if r.name != "Time"}


def test_a_model_has_one_watch(caplog: pytest.LogCaptureFixture) -> None:
    """A notebook's cell that is run again watches the same model."""
    model = net()
    optimizer, batches = sgd(model), draw(4, 4, 4)
    pits = []
    for _ in range(3):
        pits.append(watch(model, optimizer, CRITERION))
        train(model, optimizer, CRITERION, batches)
    pits[-1].close()
    assert [list(pit.get_output()) for pit in pits] == [[0, 1, 2]] * 3
    assert caplog.text.count("Sequential was being watched: that watch is closed, a new one begins") == 2
    assert not optimizer._optimizer_step_post_hooks
    watch(model, optimizer, CRITERION).close()  # a closed one is no reason for a word
    assert caplog.text.count("was being watched") == 2
    first = watch(model, optimizer, CRITERION)
    watch(torch.nn.DataParallel(model), optimizer, CRITERION).close()
    assert "closed" in repr(first)


class Accelerated(torch.optim.Optimizer):
    """What libraries put around an optimizer: torch's step hooks are never called on it."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        return self.optimizer.param_groups

    def step(self, closure: Any = None) -> Any:
        return self.optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)


class Scheduled:
    """No optimizer for torch, and everything else is the inner one's."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_optimizer"], name)


@pytest.mark.parametrize("wrap", [Accelerated, Scheduled, lambda inner: Scheduled(Accelerated(inner))])
def test_an_optimizer_in_a_wrapper(wrap: Any) -> None:
    batches = draw(4, 4, 4)
    plain = watched(batches)
    model = net()
    outer = wrap(sgd(model))
    with watch(model, outer, CRITERION) as pit:
        train(model, outer, CRITERION, batches)
    for step, known in plain.get_output().items():
        assert pit.get_output()[step]["UpdateSize"] == known["UpdateSize"]


def test_a_wrapper_of_nothing_is_refused() -> None:
    with pytest.raises(CockpitError, match=r"optimizer is Scheduled; give a torch\.optim\.Optimizer"):
        watch(net(), Scheduled(None), CRITERION)
