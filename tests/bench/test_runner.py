from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.bench.tiny import accuracies, data, losses, model, problem
from torch import Tensor, nn

from cockpit.bench import origin
from cockpit.bench.optimizers import choose
from cockpit.bench.progress import Lines
from cockpit.bench.randomness import EVALUATION, TRAINING, seed_phase, unchanged
from cockpit.bench.runner import bench, train, train_seconds
from cockpit.bench.seeds import epoch_generator
from cockpit.core.errors import CockpitError
from cockpit.problems._base import Place, Problem, Splits, Variant
from cockpit.results import folder as results
from cockpit.run import open_run
from cockpit.store import runs

PLACE = Place(Path("nowhere"), download=False)


@pytest.fixture
def go(tmp_path: Path) -> Callable[..., Any]:
    """Train a tiny problem below a folder of the test."""

    def call(optimizer: Any = "SGD", task: Problem | None = None, **options: Any) -> Any:
        known = {"lr": 0.1} if isinstance(optimizer, str) else {}
        return train(task or problem(), optimizer, **{"out": tmp_path, "place": PLACE, **known, **options})

    return call


def kept(made: list[nn.Module], seed: int) -> nn.Module:
    made.append(model(seed))
    return made[-1]


# ---- the protocol


def reference(seed: int, epochs: int, lr: float, l2: float) -> tuple[dict[str, list[float]], list[float], nn.Module]:
    """The loop written out, with SGD by hand."""
    net, splits = model(seed), data(PLACE, Variant())
    weights = [net[0].weight, net[4].weight]  # type: ignore[index]
    curves: dict[str, list[float]] = {}
    logged = []

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        return losses(outputs, y).mean() + l2 / 2 * sum((weight**2).sum() for weight in weights)

    def judged(x: Tensor, y: Tensor) -> tuple[float, float]:
        outputs = net(x)
        return float(loss(outputs, y)), float(accuracies(outputs, y).mean())

    for epoch in range(epochs + 1):
        net.eval()
        seed_phase(seed, epoch, EVALUATION)
        for name, split in (("train", splits.train_eval), ("valid", splits.valid), ("test", splits.test)):
            assert split is not None
            with torch.no_grad():
                pairs = [judged(x, y) for x, y in split.epoch(10)]
            for kind, values in zip(("loss", "accuracy"), zip(*pairs, strict=True), strict=True):
                curves.setdefault(f"{name}_{kind}", []).append(float(np.mean(values)))
        if epoch == epochs:
            break
        net.train()
        seed_phase(seed, epoch, TRAINING)
        for step, (x, y) in enumerate(splits.train.epoch(10, epoch_generator(seed, epoch))):
            net.zero_grad()
            value = loss(net(x), y)
            value.backward()
            if step % 3 == 0:
                logged.append(value.item())
            with torch.no_grad():
                for parameter in net.parameters():
                    assert parameter.grad is not None
                    parameter -= lr * parameter.grad
    return curves, logged, net


def test_it_does_what_the_loop_written_out_does(go: Callable[..., Any]) -> None:
    made: list[nn.Module] = []
    result = go(task=problem(model=partial(kept, made)), seed=7, epochs=3, log_interval=3)
    with unchanged():
        curves, logged, net = reference(7, 3, 0.1, 0.01)
    assert result.curves.keys() == curves.keys()
    for metric, values in curves.items():
        assert result.curves[metric] == pytest.approx(values, abs=1e-6), metric
        assert len(values) == 4
    assert result.batch_losses == pytest.approx(logged, abs=1e-6)
    assert len(logged) == 3 * 3  # steps 0, 3 and 6 of each epoch of 8
    for ours, theirs in zip(made[0].parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert result.complete
    assert len(result.seconds) == 3
    assert min(result.seconds) > 0
    assert (result.problem, result.optimizer, result.hyperparameters) == ("tiny", "SGD", {"lr": 0.1})


def test_the_l2_term_belongs_to_every_loss(go: Callable[..., Any]) -> None:
    plain, heavy = go(epochs=0, l2=0.0), go(epochs=0, l2=2.0)
    squares = sum(layer.weight.square().sum().item() for layer in model(42) if isinstance(layer, nn.Linear))
    for split in ("train", "valid", "test"):
        assert heavy.curves[f"{split}_loss"][0] - plain.curves[f"{split}_loss"][0] == pytest.approx(squares, rel=1e-5)
    assert heavy.variant == {"l2": 2.0}


def test_a_phase_begins_with_begin(go: Callable[..., Any]) -> None:
    seen: list[bool] = []
    go(task=problem(begin=lambda net: seen.append(net.training)), epochs=2)
    judged = [False, False, False]
    assert seen == [*judged, True, *judged, True, *judged]


def test_without_validation_there_are_no_such_curves(go: Callable[..., Any]) -> None:
    result = go(variant=Variant(validation=False), epochs=1)
    assert sorted(result.curves) == ["test_accuracy", "test_loss", "train_accuracy", "train_loss"]
    assert result.variant == {"validation": False}


def test_a_problem_without_accuracies(go: Callable[..., Any]) -> None:
    assert sorted(go(task=problem(accuracies=None), epochs=1).curves) == ["test_loss", "train_loss", "valid_loss"]


def test_the_order_of_batches(go: Callable[..., Any]) -> None:
    fixed = {"variant": Variant(order="fixed"), "log_interval": 1, "lr": 0.0}
    quiet = problem(model=lambda seed: nn.Linear(4, 3, bias=False).requires_grad_())
    with unchanged():
        torch.manual_seed(0)
        same = go(task=quiet, epochs=2, **fixed).batch_losses
    with unchanged():
        torch.manual_seed(0)
        fresh = go(task=quiet, epochs=2, log_interval=1, lr=0.0).batch_losses
    assert same[:8] == same[8:]
    assert fresh[:8] != fresh[8:]


# ---- everything follows from the seed


def test_the_same_seed_gives_the_same_run(go: Callable[..., Any], tmp_path: Path) -> None:
    torch.manual_seed(1)
    first = go(seed=3)
    torch.manual_seed(2)
    second = go(seed=3, out=tmp_path / "again")
    assert first.curves == second.curves
    assert first.batch_losses == second.batch_losses
    assert go(seed=4).curves != first.curves


def test_the_random_state_of_the_user_stays(go: Callable[..., Any]) -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    expected = torch.rand(1), np.random.rand(), random.random()
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    go()
    assert (torch.rand(1), np.random.rand(), random.random()) == expected


@pytest.mark.parametrize("optimizer", ["Momentum", "Adam"])
def test_watching_changes_nothing(go: Callable[..., Any], tmp_path: Path, optimizer: str) -> None:
    plain: list[nn.Module] = []
    watched: list[nn.Module] = []
    one = go(optimizer, problem(model=partial(kept, plain)), lr=0.01)
    two = go(optimizer, problem(model=partial(kept, watched)), lr=0.01, watch="full", every=2, out=tmp_path / "watched")
    assert one.curves == two.curves
    assert one.batch_losses == two.batch_losses
    for name, value in plain[0].state_dict().items():
        assert torch.equal(value, watched[0].state_dict()[name]), name
    (run,) = runs(tmp_path / "watched")
    assert {"Loss", "GradNorm", "HessTrace", "test_accuracy"} <= set(open_run(run.path).names)


# ---- optimizers and schedules


class Signs(torch.optim.Optimizer):
    """An optimizer of the user's."""

    def __init__(self, params: Any, lr: float = 0.01) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter -= group["lr"] * parameter.grad.sign()


@pytest.mark.parametrize(
    "optimizer",
    [
        "Adam",
        Signs,
        torch.optim.AdamW,
        partial(torch.optim.SGD, momentum=0.9, lr=0.1),
        lambda parameters: Signs(parameters, lr=0.02),
        choose("NAG", lr=0.05),
    ],
)
def test_any_optimizer(go: Callable[..., Any], optimizer: Any) -> None:
    result = go(optimizer)
    assert result.hyperparameters["lr"] > 0
    assert result.curves["train_loss"][-1] < result.curves["train_loss"][0]


def test_an_optimizer_that_computes_the_loss_again(go: Callable[..., Any]) -> None:
    task = problem(model=lambda seed: nn.Sequential(nn.Linear(4, 3)))  # nothing random in it
    result = go("LBFGS", task, epochs=1, lr=0.1, log_interval=1)
    assert result.curves["train_loss"][1] < result.curves["train_loss"][0]
    assert len(result.batch_losses) == 8
    assert result.batch_losses[0] == go("SGD", task, epochs=1).batch_losses[0]  # before the update


def rates(folder: Path) -> list[float]:
    (found,) = runs(folder)
    return [float(rate) for rate in open_run(found.path)["learning_rate"].values]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("cosine", [0.1, 0.075, 0.025]),
        (lambda epoch: 0.5**epoch, [0.1, 0.05, 0.025]),
        (partial(torch.optim.lr_scheduler.StepLR, step_size=1, gamma=0.5), [0.1, 0.05, 0.025]),
        (lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1), [0.1, 0.01, 0.001]),
        (
            partial(torch.optim.lr_scheduler.ReduceLROnPlateau, patience=0, threshold=9, threshold_mode="abs"),
            [0.1, 0.1, 0.01],
        ),
    ],
)
def test_schedules(go: Callable[..., Any], tmp_path: Path, schedule: Any, expected: list[float]) -> None:
    go(schedule=schedule, epochs=3, log_interval=8)
    assert rates(tmp_path) == pytest.approx(expected)


def test_seconds_of_training_alone() -> None:
    assert 0 < train_seconds(problem(), choose("SGD", lr=0.1), 2, 10, PLACE, "cpu") < 60
    with pytest.raises(CockpitError, match="batch size 1000: the train data have 83 samples"):
        train_seconds(problem(), choose("SGD", lr=0.1), 2, 1000, PLACE, "cpu")


# ---- what it leaves behind


def test_a_run_is_recorded(go: Callable[..., Any], tmp_path: Path) -> None:
    result = go(log_interval=4)
    (found,) = runs(tmp_path)
    assert found.id == "tiny/SGD/lr_1e-01/seed_42"
    assert found.state == "finished"
    assert (found.steps, found.reached) == (32, 32)
    run = open_run(found.path)
    assert run["Loss"].steps.tolist() == list(range(0, 32, 4))
    assert run["Loss"].values.tolist() == result.batch_losses
    assert run["test_accuracy"].values.tolist() == result.curves["test_accuracy"]
    assert run["test_accuracy"].steps.tolist() == [0, 7, 15, 23, 31]
    assert results.read(found.path) == result


def test_a_complete_run_is_not_run_again(go: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[nn.Module] = []
    said: list[str] = []
    counted = problem(model=partial(kept, made))
    monkeypatch.setattr(origin, "problem_mark", lambda problem: "the same")  # what counts the models is other code
    first = go()
    assert go(task=counted, progress=Lines(said.append)) == first
    assert made == []
    assert "already there" in said[0]
    assert go(task=counted, resume=False).curves == first.curves
    assert len(made) == 1


def test_other_settings_in_the_same_folder_are_refused(go: Callable[..., Any]) -> None:
    go(log_interval=2)
    with pytest.raises(CockpitError, match="log_interval was 2, is 3; give the same"):
        go(log_interval=3)


@pytest.mark.parametrize("rate", [1e30, 3e6])
def test_a_run_that_diverges_is_complete(go: Callable[..., Any], tmp_path: Path, rate: float) -> None:
    said: list[str] = []
    flat = problem(model=lambda seed: nn.Sequential(nn.Linear(4, 3)), l2=1.0)
    result = go(task=flat, lr=rate, progress=Lines(said.append))
    assert result.complete
    assert result.diverged is not None
    for values in result.curves.values():
        assert len(values) == result.diverged
        assert np.isfinite(values).all()
    assert np.isfinite(result.batch_losses).all()
    assert f"diverged in epoch {result.diverged}" in said[-1]
    (found,) = runs(tmp_path)
    assert results.read(found.path) == result


def test_a_loss_that_is_not_finite_from_the_start(go: Callable[..., Any]) -> None:
    result = go(task=problem(losses=lambda outputs, targets: outputs.sum(1) / 0))
    assert (result.diverged, result.curves, result.batch_losses, result.complete) == (0, {}, [], True)


def test_data_are_loaded_once(tmp_path: Path) -> None:
    loads = []

    def load(place: Place, variant: Variant) -> Splits:
        loads.append(place)
        return data(place, variant)

    task = problem(data=load)
    found = bench(task, "SGD", [1, 2, 3], lr=0.1, epochs=1, out=tmp_path, place=PLACE)
    assert [result.seed for result in found] == [1, 2, 3]
    assert loads == [PLACE]
    bench(task, "SGD", [1, 2], lr=0.1, epochs=1, out=tmp_path, place=PLACE)
    assert loads == [PLACE]


# ---- precision and compilation


def test_mixed_precision(go: Callable[..., Any], tmp_path: Path) -> None:
    full, mixed = go(), go(amp="bf16", device="cpu")
    assert mixed.variant == {"amp": "bf16"}
    assert mixed.curves["test_loss"] != full.curves["test_loss"]
    assert mixed.curves["test_loss"] == pytest.approx(full.curves["test_loss"], abs=0.1)
    assert (tmp_path / "tiny/SGD/lr_1e-01__amp_bf16/seed_42/result.json").is_file()


def test_a_compiled_model(go: Callable[..., Any]) -> None:
    task = problem(model=lambda seed: nn.Sequential(*list(model(seed))[:5]))  # dynamo warns of the noise
    compiled = go(task=task, compile="eager", epochs=2)
    assert compiled.variant == {"compile": "eager"}
    assert compiled.curves == go(task=task, epochs=2).curves


# ---- wrong input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 31}, "batch size 31: the valid data have 30 samples"),
        ({"batch_size": 0}, "batch_size is 0; give a whole number, 1 or more"),
        ({"epochs": -1}, "epochs is -1"),
        ({"epochs": 1.5}, "epochs is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is 18446744073709551616; give a whole number, 9223372036854775807 or less"),
        ({"every": 0, "watch": "economy"}, "every is 0; give a number of steps"),
        ({"every": 3}, "with watch what to measure"),
        ({"place": "data"}, "place is 'data'; give a"),
        ({"task": problem(name="digits")}, "digits is the name of another problem"),
        ({"schedule": lambda epoch: -1}, "the schedule gives -1 in epoch 0"),
        ({"log_interval": 0}, "log_interval is 0"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin'; did you mean 'cosine'"),
        ({"schedule": lambda optimizer: "x"}, "return a factor on the rate for an epoch"),
        ({"schedule": lambda optimizer: optimizer.nothing}, "makes no scheduler"),
        ({"variant": Variant(order="none")}, "unknown order of mini-batches 'none'"),
        ({"device": "gpu"}, "device 'gpu' cannot be used"),
        ({"amp": "fp16", "device": "cpu"}, "fp16 needs a CUDA device, this is cpu"),
        ({"amp": "int8"}, "unknown precision 'int8'"),
        ({"l2": -1.0}, "l2 is -1.0"),
        ({"watch": "ecnomy"}, "economy"),
        ({"momentun": 0.9}, "momentun"),
        ({"task": problem(epochs=None)}, r"tiny has no epochs of its own; give epochs \(--epochs\)"),
        ({"task": "tiny"}, "unknown problem 'tiny'"),
        ({"task": 7}, "problem is 7"),
        ({"optimizer": choose("SGD"), "lr": 0.1}, "was already chosen"),
    ],
)
def test_wrong_input(go: Callable[..., Any], tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CockpitError, match=message):
        go(**options)
    assert list(tmp_path.iterdir()) == []


def test_no_seeds(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="no seeds"):
        bench(problem(), "SGD", [], out=tmp_path)
    with pytest.raises(CockpitError, match="seeds is 3; give several"):
        bench(problem(), "SGD", 3, out=tmp_path)  # type: ignore[arg-type]


def test_an_optimizer_for_sparse_gradients_alone(go: Callable[..., Any]) -> None:
    with pytest.raises(CockpitError, match=r"SparseAdam cannot train tiny: .*dense gradients"):
        go("SparseAdam")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"optimizer": "SGD"}, {"optimizer": partial(torch.optim.SGD, momentum=0.9)}),
        ({"schedule": lambda epoch: 1.0}, {"schedule": lambda epoch: 0.01}),
    ],
)
def test_runs_that_differ_by_a_function_are_not_taken_for_each_other(
    go: Callable[..., Any], one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert go(**one).curves["train_loss"] != go(**other).curves["train_loss"]
