"""The paper's face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cockpit.quantities as quantities
from cockpit import Cockpit, configuration, extend
from cockpit.context import get_batch_size, get_individual_losses
from cockpit.core.errors import CockpitError
from cockpit.quantities.bin_adaptation import GradAbsMax, ParamAbsMax
from cockpit.quantities.quantity import SingleStepQuantity, TwoStepQuantity
from cockpit.utils.configuration import quantities_cls_for_configuration
from cockpit.utils.schedules import linear

STEPS, BATCH = 5, 4


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def run(tracked: list[Any], steps: int = STEPS, inside: Any = None, first: int = 0, **info: Any) -> Cockpit:
    model = extend(net())
    loss_fn, losses_fn = extend(nn.CrossEntropyLoss()), nn.CrossEntropyLoss(reduction="none")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pit = Cockpit(model.parameters(), quantities=tracked)
    for step in range(first, first + steps):
        inputs, labels = torch.randn(BATCH, 6), torch.randint(0, 3, (BATCH,))
        optimizer.zero_grad()
        outputs = model(inputs)
        loss, losses = loss_fn(outputs, labels), losses_fn(outputs, labels)
        known = {"batch_size": BATCH, "individual_losses": losses, "loss": loss, "optimizer": optimizer, **info}
        with pit(step, info=known):
            loss.backward(create_graph=pit.create_graph(step))
            if inside is not None:
                inside(pit, step)
        optimizer.step()
    return pit


@pytest.mark.parametrize("name", quantities.__all__)
def test_every_quantity_leaves_what_its_schedule_says(name: str) -> None:
    schedule = linear(1, offset=2)
    quantity = quantities.QUANTITIES[name](track_schedule=schedule, verbose=False)
    run([quantity])
    if isinstance(quantity, TwoStepQuantity):
        shift = quantity.SAVE_SHIFT
        expected = [step for step in range(STEPS) if quantity.is_end(step + shift) and step + shift < STEPS]
    else:
        assert isinstance(quantity, SingleStepQuantity)
        expected = [step for step in range(STEPS) if schedule(step)]
    assert sorted(quantity.get_output()) == expected
    assert all(value is not None for value in quantity.get_output().values())


def test_values_appear_when_the_context_is_left() -> None:
    seen: list[bool] = []
    quantity = quantities.Time(track_schedule=linear(1))
    run([quantity], inside=lambda pit, step: seen.append(step in pit.quantities[0].output))
    assert seen == [False] * STEPS
    assert sorted(quantity.output) == list(range(STEPS))


@pytest.mark.parametrize("label", ["economy", "business", "full"])
def test_presets_are_nested(label: str) -> None:
    economy = {
        "Loss", "Time", "Alpha", "Distance", "UpdateSize", "GradNorm", "NormTest", "InnerTest", "OrthoTest",
        "GradHist1d",
    }  # fmt: skip
    expected = {
        "economy": economy,
        "business": economy | {"TICDiag", "HessTrace"},
        "full": economy | {"TICDiag", "HessTrace", "HessMaxEV", "GradHist2d"},
    }[label]
    assert {quantity.name for quantity in configuration(label)} == expected
    assert {cls.__name__ for cls in quantities_cls_for_configuration(label)} == expected
    tracked = configuration(label, track_schedule=linear(2))
    assert sorted(run(tracked).get_output()) == [0, 2, 4]


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(CockpitError, match="did you mean 'economy'"):
        configuration("econmy")


def test_a_quantity_of_the_papers_kind() -> None:
    class MeanLoss(SingleStepQuantity):
        """Mean of the individual losses, by the context."""

        def extensions(self, global_step: int) -> list[Any]:
            return []

        def _compute(self, global_step: int, params: list[Any], batch_loss: torch.Tensor) -> float:
            return float(get_individual_losses(global_step).detach().sum()) / get_batch_size(global_step)

    class GradientTwice(SingleStepQuantity):
        """Needs the graph after the backward pass."""

        def create_graph(self, global_step: int) -> bool:
            return self.should_compute(global_step)

        def _compute(self, global_step: int, params: list[Any], batch_loss: torch.Tensor) -> float:
            grads = torch.autograd.grad(batch_loss, params, create_graph=True)
            return float(sum(grad.detach().square().sum() for grad in grads)) ** 0.5

    mean, twice, loss, norm = MeanLoss(linear(1)), GradientTwice(linear(2)), quantities.Loss(), quantities.GradNorm()
    run([mean, twice, loss, norm])
    for step, value in mean.get_output().items():
        assert value == pytest.approx(loss.get_output()[step], rel=1e-6)
    assert sorted(twice.get_output()) == [0, 2, 4]
    for step, value in twice.get_output().items():
        assert value == pytest.approx(sum(n**2 for n in norm.get_output()[step]) ** 0.5, rel=1e-5)


def test_bins_adapt_for_the_steps_after() -> None:
    policy = (GradAbsMax(lambda step: step == 1), ParamAbsMax(lambda step: step == 1, padding=0.5))
    hist1d, hist2d = quantities.GradHist1d(adapt=policy[0]), quantities.GradHist2d(adapt=policy)
    output = run([hist1d, hist2d]).get_output()
    assert output[1]["GradHist1d"].edges[0][-1] == 2
    assert 0 < output[2]["GradHist1d"].edges[0][-1] < 2
    assert output[2]["GradHist1d"].edges[0][-1] == output[4]["GradHist2d"].edges[0][-1]
    assert output[2]["GradHist2d"].edges[1][-1] < 2
    assert output[2]["GradHist1d"].counts.sum() == output[1]["GradHist1d"].counts.sum()


def test_log_and_write(tmp_path: Path) -> None:
    pit = run([quantities.Loss(), quantities.GradNorm(), quantities.GradHist2d(), quantities.Parameters()])
    pit.log(4, 1, 0.1, 0.2, 0.3, 0.9, 0.8, 0.7, 0.01)
    pit.write(str(tmp_path / "logs" / "run"))
    written = json.loads((tmp_path / "logs" / "run.json").read_text())
    assert written["0"]["Loss"] == pit.get_output()[0]["Loss"]
    assert written["0"]["GradNorm"] == list(pit.get_output()[0]["GradNorm"].values())
    assert len(written["0"]["GradHist2d"]["hist"]) == 40
    assert written["0"]["Parameters"]["0"].keys() == {"norm", "mean", "std", "min", "max"}
    assert written["4"]["valid_accuracy"] == 0.8


def test_a_step_far_from_zero() -> None:
    pit = run(configuration("economy"), first=1000)
    assert pit.get_output()[1000]["Alpha"] is not None


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_an_error_inside_passes_through(error: BaseException) -> None:
    def fail(pit: Cockpit, step: int) -> None:
        raise error

    original = torch.autograd.backward
    with pytest.raises(type(error)) as caught:
        run(configuration("full"), inside=fail)
    assert caught.value is error
    assert caught.value.__context__ is None
    assert torch.autograd.backward is original


def test_bad_input_is_named() -> None:
    with pytest.raises(CockpitError, match="not a scalar"):
        run([quantities.Loss()], loss=torch.ones(3))
    with pytest.raises(CockpitError, match="batch_size"):
        run([quantities.NormTest()], batch_size=None, individual_losses=None)
    with pytest.raises(CockpitError, match="requires_grad=False"):
        Cockpit([torch.zeros(3)])
    with pytest.raises(CockpitError, match="not a quantity"):
        Cockpit(net().parameters()).add("Loss")  # type: ignore[arg-type]
    with pytest.raises(CockpitError, match="no parameters"):
        Cockpit([])


def test_named_parameters_give_names() -> None:
    model = net()
    pit = Cockpit(model.named_parameters(), [quantities.GradNorm()])
    loss = model(torch.randn(4, 6)).square().mean()
    with pit(0, info={"batch_size": 4, "loss": loss}):
        loss.backward()
    assert list(pit.get_output()[0]["GradNorm"]) == [name for name, _ in model.named_parameters()]
