"""What comes out: values by kind, the user's own numbers, and what ``explain`` says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.small import (
    draw,
    expected,
    net,
    sgd,
    train,
    watch,
    watched,
)
from torch import Tensor, nn

from cockpit.core.errors import CockpitError

# ---- what comes out


def test_a_scalar_is_a_float_or_none() -> None:
    last = watched(draw(4, 4)).get_output()[1]
    assert isinstance(last["Loss"], float)
    assert isinstance(last["NormTest"], float)
    assert last["Alpha"] is None  # no step has followed


def test_a_value_per_parameter_is_in_the_order_of_the_model() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    model[2].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(reversed([p for p in model.parameters() if p.requires_grad]), lr=0.1)
    with watch(model, optimizer, loss_fn, "full") as pit:
        train(model, optimizer, loss_fn, draw(4))
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    for quantity in ("GradNorm", "UpdateSize", "Distance", "HessTrace"):
        value = pit.get_output()[0][quantity]
        assert list(value) == names
        assert {type(entry) for entry in value.values()} == {float}
    for quantity in ("GradHist1d", "GradHist2d"):
        assert list(pit.get_output()[0][quantity].parts) == names


@pytest.mark.parametrize(("name", "shape"), [("GradHist1d", (100,)), ("GradHist2d", (40, 50))])
def test_a_histogram_has_edges_counts_and_parts(name: str, shape: tuple[int, ...]) -> None:
    model = net()
    found = watched(draw(6), quantities=[name]).get_output()[0][name]
    assert isinstance(found.edges, tuple)
    assert tuple(len(axis) - 1 for axis in found.edges) == shape == found.counts.shape
    assert found.counts.dtype == np.int64
    assert list(found.parts) == [n for n, _ in model.named_parameters()]
    assert all(part.dtype == np.int64 and part.shape == shape for part in found.parts.values())
    assert (sum(found.parts.values()) == found.counts).all()
    for parameter, part in found.parts.items():
        assert part.sum() == 6 * model.get_parameter(parameter).numel()


def test_the_output_can_be_changed_without_harm() -> None:
    pit = watched(draw(4))
    pit.get_output()[0].clear()
    pit.get_output().clear()
    assert "Loss" in pit.get_output()[0]


def test_the_run_is_written_into_a_folder(tmp_path: Any) -> None:
    watched(draw(4, 4), run=tmp_path / "run")
    assert list((tmp_path / "run").iterdir())


# ---- the user's own numbers


def test_log_stands_beside_the_quantities() -> None:
    model, loss_fn = net(), nn.CrossEntropyLoss()
    optimizer = sgd(model)
    with watch(model, optimizer, loss_fn, ["Loss"], every=2) as pit:
        pit.log(before=1)
        for epoch, batch in enumerate(draw(4, 4)):
            train(model, optimizer, loss_fn, [batch])
            pit.log(accuracy=epoch / 2, valid_loss=torch.tensor(2.5))
        pit.log(step=7, accuracy=0.75)
    output = pit.get_output()
    assert output[0]["before"] == 1.0
    assert [(step, output[step].get("accuracy")) for step in output] == [(0, 0.0), (1, 0.5), (7, 0.75)]
    assert output[1]["valid_loss"] == 2.5
    assert isinstance(output[0]["Loss"], float)


@pytest.mark.parametrize(
    "value", [3, 0.5, float("nan"), float("inf"), np.float64(0.5), np.float32(0.5), np.int64(3), torch.tensor([0.5])]
)
def test_log_takes_any_number(value: Any) -> None:
    pit = watched(draw(4))
    pit.log(mine=value)
    found = pit.get_output()[0]["mine"]
    assert found == pytest.approx(float(value), nan_ok=True)


@pytest.mark.parametrize("value", ["0.5", None, 10**400, [0.5], torch.zeros(2), True, 1j, np.zeros(2)])
def test_log_refuses_what_is_no_number(value: Any) -> None:
    pit = watched(draw(4))
    with pytest.raises(CockpitError, match=r"mine.*number"):
        pit.log(mine=value)
    assert "mine" not in pit.get_output()[0]


def test_log_refuses_the_name_of_a_quantity() -> None:
    pit = watched(draw(4), quantities=["Loss"])
    with pytest.raises(CockpitError, match=r"GradNorm.*choose another"):
        pit.log(GradNorm=1.0)


@pytest.mark.parametrize("step", [-1, "x", 0.5, True, 2**70])
def test_log_refuses_a_bad_step(step: Any) -> None:
    pit = watched(draw(4))
    with pytest.raises(CockpitError, match="step"):
        pit.log(step=step, mine=1.0)


# ---- explain


def test_explain_says_what_is_watched_and_what_it_costs() -> None:
    said = watched(draw(4, 4)).explain()
    for part in ("Sequential", "6 parameters", "tracked 2 steps from 0 to 1", "NormTest", "cover all parameters", "ms"):
        assert part in said


def test_explain_before_the_first_step() -> None:
    model = net()
    with watch(model, sgd(model)) as pit:
        assert "no step tracked yet" in pit.explain()


def test_what_is_not_covered_is_named_with_its_share() -> None:
    """A parameter that no sample has to do with: a penalty alone moves it."""

    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.spare = net(), nn.Parameter(torch.ones(67, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x)

    model, loss_fn = Spare(), nn.CrossEntropyLoss()
    optimizer, (x, y) = sgd(model), draw(4)[0]
    truth = expected(model.body, x, y)
    with watch(model, optimizer, loss_fn) as pit:
        (loss_fn(model(x), y) + model.spare.square().sum()).backward()
        optimizer.step()
    assert "spare" in pit.explain()
    share = 100 * sum(p.numel() for p in model.body.parameters()) / sum(p.numel() for p in model.parameters())
    assert f"{share:.1f}%" in pit.explain()
    assert pit.get_output()[0]["NormTest"] == pytest.approx(truth["NormTest"])
    assert pit.get_output()[0]["GradNorm"]["spare"] == pytest.approx(2 * 67**0.5)
